// One finding of an audit: the sentence, what is annotated and what is suggested, the parts, the other places.

import { showDifferences, treePair } from "/static/audit-trees.js";
import { h, percent, plural, put } from "/static/dom.js";

export const KEYS = { accept: "a", reject: "r", skip: "s" };
const NAMES = { accept: "Accept", reject: "Reject", skip: "Skip" };
export const DONE = { accept: "accepted", reject: "rejected", skip: "skipped" };

export const placeOf = (finding) => `${finding.file}:${finding.line ?? "?"}`;
export const shortPlaceOf = (finding) => `${finding.file.split("/").at(-1)}:${finding.line ?? "?"}`;
export const changeOf = (part) => `${part.annotated || "–"} → ${part.suggested || "–"}`;

// The sentence, with the words of the suspected region marked.
export function sentence(words, start, end) {
  const text = (from, to) => words.slice(from, to).join(" ");
  return h(
    "p",
    { class: "quote", dir: "auto" },
    start > 0 ? `${text(0, start)} ` : null,
    end > start ? h("mark", {}, text(start, end)) : null,
    end < words.length ? ` ${text(end, words.length)}` : null,
  );
}

// made: the decision on each part; ondecide is called with a new one for all, or null for none; onpart with a part's
// index and a new one for that part.
export function findingView(finding, drawings, made, { ondecide, onpart }) {
  const same = made.every((one) => one === made[0]) ? made[0] : null;
  const words = finding.words ?? [];
  const line = h("div", { class: "audit-sentence" }, sentence(words, finding.start, finding.end));
  const pair = treePair(finding, drawings);
  const parts = finding.parts ?? [];
  const choose = (part) => put(line, sentence(words, part.start, part.end));
  const element = h(
    "section",
    { class: "card audit-finding", "aria-label": `Finding ${finding.rank}` },
    h(
      "header",
      {},
      h("h2", {}, `${finding.rank}. ${finding.kind}: ${changeOf(finding)}`),
      h("span", { class: "facts" }, `${placeOf(finding)}, tree ${finding.tree}`),
    ),
    line,
    numbersOf(finding),
    decisionBar(same, ondecide, parts.length > 1),
    parts.length > 1 ? partTable(parts, made, choose, onpart) : null,
    pair,
    elsewhereList(finding.elsewhere ?? []),
  );
  return { element, show: () => showDifferences(pair) };
}

const numbersOf = (finding) =>
  h(
    "p",
    { class: "facts" },
    h("span", {}, "probability of the annotation ", h("b", {}, percent(finding.p_annotated))),
    h("span", {}, "of the suggestion ", h("b", {}, percent(finding.p_suggested))),
    h("span", {}, "expected precision ", h("b", {}, percent(finding.expected_precision))),
  );

const decideButton = (decision, made, ondecide, name, hint) =>
  h(
    "button",
    {
      type: "button",
      class: "decide",
      "data-decision": decision,
      "aria-pressed": String(made === decision),
      onclick: () => ondecide(made === decision ? null : decision),
    },
    name,
    hint,
  );

function decisionBar(made, ondecide, hasParts) {
  const button = (decision) =>
    decideButton(decision, made, ondecide, NAMES[decision] + (hasParts ? " all" : ""), [
      " ",
      h("kbd", {}, KEYS[decision]),
    ]);
  return h(
    "div",
    { class: "bar audit-bar", role: "group", "aria-label": "Decision" },
    Object.keys(KEYS).map(button),
  );
}

// A part can be decided alone: by its buttons, or by the keys while its row has the focus.
function partTable(parts, made, onchoose, onpart) {
  const press = (event, part, index) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const decision = Object.keys(KEYS).find((name) => KEYS[name] === event.key);
    if (event.key === "Enter" && event.target === event.currentTarget) onchoose(part);
    else if (decision) onpart(index, decision);
    else if (event.key === "u") onpart(index, null);
    else return; // the keys of the list
    event.stopPropagation();
    event.preventDefault();
  };
  const row = (part, index) =>
    h(
      "tr",
      {
        class: "pick",
        tabindex: "0",
        "data-part": String(index),
        "data-made": made[index],
        onclick: () => onchoose(part),
        onkeydown: (event) => press(event, part, index),
      },
      h("th", { scope: "row" }, `${index + 1}. ${part.kind}`),
      h("td", {}, changeOf(part)),
      cell("words", wordsOf(part)),
      cell("annotated", percent(part.p_annotated)),
      cell("suggested", percent(part.p_suggested)),
      cell("expected", percent(part.expected_precision)),
      h(
        "td",
        {},
        partBar(made[index], (decision) => onpart(index, decision), index),
      ),
    );
  const names = ["Part", "annotated → suggested", "words", "annotated", "suggested", "expected", "decision"];
  return h(
    "div",
    { class: "scroll audit-parts" },
    h(
      "table",
      {},
      h(
        "caption",
        {},
        `${plural(parts.length, "part")}; choose one to mark its words, or decide on it alone`,
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          names.map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h("tbody", {}, parts.map(row)),
    ),
  );
}

const wordsOf = ({ start, end }) =>
  start === undefined ? "" : end - start === 1 ? `${end}` : `${start + 1}–${end}`;

// A narrow screen shows the name of the column beside the number.
const cell = (name, text) => h("td", { "data-name": name }, text);

const partBar = (made, ondecide, index) =>
  h(
    "span",
    { class: "audit-part-bar", role: "group", "aria-label": `Decision on part ${index + 1}` },
    Object.keys(KEYS).map((decision) => decideButton(decision, made, ondecide, NAMES[decision], null)),
  );

function elsewhereList(places) {
  if (!places.length) return null;
  const item = (place) =>
    h(
      "li",
      {},
      h("code", {}, `${place.file}:${place.line}`),
      ` tree ${place.tree}: `,
      h("b", {}, place.annotation),
    );
  return h(
    "div",
    { class: "audit-elsewhere" },
    h("h3", {}, "The same words elsewhere"),
    h("ul", { class: "examples" }, places.map(item)),
  );
}
