// Cards of hidden states: what a state, or a side of a spectral direction, becomes, its contexts, and examples.

import { bars, h, percent, plural } from "/static/dom.js";
import { columns } from "/static/plots.js";
import { plainContext, plainRule, spokenSymbol } from "/static/symbols.js";

const AROUND = 8; // words that an example shows on either side
const small = (text) => h("p", { class: "small" }, text);
const listOf = (row, kind) => (row[`${kind}s`] ?? []).slice(0, kind === "word" ? 10 : 5);

// How symbols are written: as people read them, or as the grammar does.
export const namesOf = (isInternalShown) =>
  isInternalShown
    ? { symbol: (text) => text, rule: (text) => text, context: (text) => text }
    : { symbol: spokenSymbol, rule: plainRule, context: plainContext };

export function wordList(title, words) {
  if (!words.length) return null;
  const bold = words.map((word, k) => [k ? ", " : "", h("b", {}, word)]);
  return [small(title), h("p", { class: "words", dir: "auto" }, bold)];
}

export function meaning(row, names) {
  const chances = (title, kind) => {
    const rows = listOf(row, kind).map((one) => [names[kind](one[kind]), one.probability]);
    return rows.length ? [small(title), bars(rows, { most: 1 })] : null;
  };
  const words = listOf(row, "word").map((one) => one.word);
  return [wordList("Words", words), chances("Becomes", "rule"), chances("Stands in", "context")];
}

export function symbolHeader(symbol, names) {
  const facts = `${symbol.kind}, ${plural(symbol.states, "state")}, ${percent(symbol.share)} of all nodes`;
  return h(
    "header",
    { class: "bar" },
    h("h2", {}, names.symbol(symbol.symbol)),
    h("p", { class: "facts" }, facts),
  );
}

export function singularValues(symbol) {
  if (!symbol.singular_values) return null;
  const title = `Singular values of ${symbol.symbol}`;
  return h(
    "div",
    { class: "card" },
    h(
      "header",
      {},
      h("h3", {}, "Singular values"),
      h("span", { class: "facts" }, `how much each direction tells; the first ${symbol.states} are kept`),
    ),
    columns(symbol.singular_values, { title, kept: symbol.states }),
  );
}

export function stateCard(symbol, row, names, near) {
  const twins = row.twins ?? []; // states that are almost equal, which are shown together
  const facts = { tabindex: "-1", "data-state": `${symbol.symbol} ${row.state}`, "data-number": row.state };
  return h(
    "article",
    { class: "card", ...facts, "data-twins": twins.join(" ") },
    h("h3", {}, `State ${row.state}`, h("small", {}, percent(row.share))),
    twins.length
      ? small(`Together with ${twins.join(", ")}, which ${twins.length > 1 ? "are" : "is"} almost equal`)
      : null,
    h(
      "div",
      { class: "track", role: "img", "aria-label": `Share ${percent(row.share)}` },
      h("i", { style: { width: `${100 * row.share}%` } }),
    ),
    h("div", { class: "heads" }),
    meaning(row, names),
    h("div", { class: "seen" }),
    near,
  );
}

const DIRECTIONS =
  "The spectral method finds directions instead of separate states. A constituent lies somewhere along each of " +
  "them, and the directions mean something only together. Each card shows what lies furthest to either side.";

export function directionCards(symbol, names) {
  const side = (name, part, key) => {
    const lines = (kind, many) => [
      ...new Set(
        listOf(part, kind)
          .slice(0, many)
          .map((one) => names[kind](one[kind])),
      ),
    ];
    const list = (title, texts) =>
      texts.length
        ? [
            small(title),
            h(
              "p",
              { class: "words" },
              texts.map((text) => h("div", {}, text)),
            ),
          ]
        : null;
    return h(
      "div",
      { class: "side-of", "data-side": `${symbol.symbol} ${key}` },
      h("h4", {}, name),
      wordList(
        "Words",
        listOf(part, "word").map((one) => one.word),
      ),
      h("div", { class: "heads" }),
      h("div", { class: "seen" }),
      list("Becomes", lines("rule", 5)),
      list("Stands in", lines("context", 3)),
    );
  };
  const card = (one) =>
    h(
      "article",
      { class: "card" },
      h(
        "h3",
        {},
        `Direction ${one.dimension}`,
        h("small", {}, one.singular_value === null ? "" : `singular value ${one.singular_value.toFixed(3)}`),
      ),
      side("One side", one.positive, `${one.dimension} positive`),
      side("Other side", one.negative, `${one.dimension} negative`),
    );
  return [h("p", { class: "lead" }, DIRECTIONS), h("div", { class: "cards" }, symbol.dimensions.map(card))];
}

function exampleItem({ words, start, end }) {
  const first = Math.max(0, start - AROUND);
  const last = Math.min(words.length, end + AROUND);
  const before = `${first ? "… " : ""}${words.slice(first, start).join(" ")} `;
  const behind = ` ${words.slice(end, last).join(" ")}${last < words.length ? " …" : ""}`;
  return h("li", {}, before, h("mark", {}, words.slice(start, end).join(" ")), behind);
}

const exampleList = (examples) =>
  h("ul", { class: "examples", dir: "auto" }, examples.slice(0, 4).map(exampleItem));

// Puts examples into the cards of a place; where: what the trees are, such as "the training trees".
export function addExamples(cards, shown, where) {
  const find = (name, key) => cards.querySelector(`[data-${name}="${CSS.escape(key)}"]`);
  const fill = (card, row, says) => {
    if (!card || !row.examples.length) return;
    if (!card.querySelector(".words b") && row.head_words.length)
      card.querySelector(".heads").append(...wordList("Head words", row.head_words));
    card.querySelector(".seen").append(small(says), exampleList(row.examples));
  };
  for (const symbol of shown.symbols) {
    for (const row of symbol.rows) {
      const says = `In ${where}, ${row.count.toLocaleString("en")} of ${plural(shown.nodes, "node")} looked at`;
      fill(find("state", `${symbol.symbol} ${row.state}`), row, says);
    }
    for (const row of symbol.directions ?? [])
      for (const side of ["positive", "negative"])
        fill(find("side", `${symbol.symbol} ${row.dimension} ${side}`), row[side], `In ${where}`);
  }
}
