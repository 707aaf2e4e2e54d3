// The panel of a constituent: its posterior, the posteriors of the members of a mix, and its hidden states.

import { ask } from "/static/api.js";
import { bars, failure, h, percent, plural } from "/static/dom.js";
import { linkTo } from "/static/main.js";
import { plainContext, plainRule, spokenSymbol } from "/static/symbols.js";

const part = (...children) => h("div", { class: "part" }, ...children);
const small = (text) => h("p", { class: "small" }, text);

function headPart(title, words) {
  return part(h("span", { class: "big" }, title), h("p", { class: "quote", dir: "auto" }, words.join(" ")));
}

function posteriorPart(report, node) {
  if (node.posterior === null) return part(h("p", { class: "none" }, "The root: every tree has it."));
  const cell = report.chart.find((one) => one.start === node.start && one.end === node.end);
  const rivals = (cell?.labels ?? []).filter(([label]) => label !== node.label).slice(0, 4);
  return part(small("Posterior"), bars([[node.label, node.posterior], ...rivals], { most: 1 }));
}

// A span that the tree on show does not have.
export function otherCell(report, [start, end]) {
  const cell = report.chart.find((one) => one.start === start && one.end === end);
  return [
    part(
      h("h2", {}, "Not in this tree"),
      h("p", { class: "quote", dir: "auto" }, report.words.slice(start, end).join(" ")),
    ),
    part(
      cell
        ? [small("Posterior"), bars(cell.labels.slice(0, 8), { most: 1 })]
        : h("p", { class: "none" }, "Nothing likely here."),
    ),
  ];
}

function memberPart(voices, index) {
  const row = voices?.nodes[index];
  if (!row || row.posteriors.every((p) => p === null)) return null;
  const opinions = voices.members.map((one, k) => [
    `${one.member} ${one.method ?? ""}`,
    row.posteriors[k] ?? 0,
  ]);
  return part(small(row.disagree ? "Members disagree" : "By member"), bars(opinions, { most: 1 }));
}

// The parts of the panel for a node, its head first. The meaning of its states fills in by itself when the server has
// answered; isWanted returns whether the panel still shows this node.
export function nodeParts(report, index, { opinions, model, isWanted }) {
  const node = report.nodes[index];
  return [
    headPart(node.label, report.words.slice(node.start, node.end)),
    posteriorPart(report, node),
    memberPart(opinions, index),
    statesPart(report, node, model, isWanted),
  ];
}

function statesPart(report, node, model, isWanted) {
  if (!node.states) {
    const haveStates = report.nodes.some((one) => one.states);
    return haveStates ? part(h("p", { class: "none" }, "This label has a single state.")) : null;
  }
  if (node.states.are_directions) return directionsPart(node, model);
  const { symbol, shares } = node.states;
  const order = shares.map((share, k) => [k, share]).sort((a, b) => b[1] - a[1]);
  const rows = order.filter(([, share]) => share >= 0.005).slice(0, 6);
  const link = (k) => linkTo("states", { model, label: symbol, state: k }, `state ${k}`);
  const meaning = part();
  explainState(meaning, { model, symbol, state: order[0][0] }, isWanted);
  const of = rows.map(([k, share]) => [`state ${k}`, share, link(k)]);
  return [part(small(`Hidden states of ${spokenSymbol(symbol)}`), bars(of, { most: 1 })), meaning];
}

function directionsPart(node, model) {
  const { symbol, shares } = node.states;
  return part(
    small(`Hidden states of ${spokenSymbol(symbol)}`),
    h(
      "p",
      {},
      `A spectral model places this constituent in ${plural(shares.length, "direction")}, which mean something ` +
        "only together. ",
      linkTo("states", { model, label: symbol }, "What lies to either side of each"),
    ),
  );
}

async function explainState(place, question, isWanted) {
  try {
    const card = await ask("state", question);
    if (!isWanted()) return;
    const list = (kind, many, show) => (card[`${kind}s`] ?? []).slice(0, many).map((row) => show(row[kind]));
    const lines = (texts) => texts.map((text) => h("div", {}, text));
    const rows = [
      ["words", list("word", 6, (word) => word).join(", ")],
      ["becomes", lines(list("rule", 4, plainRule))],
      ["stands in", lines(list("context", 4, plainContext))],
    ];
    place.append(
      small(`What state ${question.state} means`),
      h(
        "dl",
        { class: "plain" },
        rows
          .filter(([, text]) => text.length)
          .map(([name, text]) => [h("dt", {}, name), h("dd", { dir: "auto" }, text)]),
      ),
    );
  } catch (error) {
    if (isWanted()) place.append(failure(error));
  }
}

// Asks the members of a mix for their posteriors of a tree; without an answer the tree stays as it is.
export async function askOpinions(question, onanswer) {
  try {
    const found = await ask("members", question);
    if (found.members.length) onanswer(found);
  } catch {
    // The tree stays, without the posteriors of the members.
  }
}

// The members of a mix, and whether each has the tree on show.
export function membersTable(found, doubts, model) {
  const says = doubts
    ? `${plural(doubts, "constituent")} that members disagree about, dotted in the tree`
    : "all agree on this tree";
  const own = (one) =>
    one.same ? "the same" : one.is_fallback ? "none" : linkTo("parse", { model, s: one.tree }, "another");
  const row = (one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(one.member)),
      h("td", {}, one.method ?? "–"),
      h("td", {}, percent(one.weight)),
      h("td", {}, own(one)),
    );
  const names = ["Member", "Method", "Weight", "Its own tree"].map((name) => h("th", { scope: "col" }, name));
  return [
    h("header", {}, h("h2", {}, "Members"), h("span", { class: "facts" }, says)),
    h(
      "div",
      { class: "scroll" },
      h("table", {}, h("thead", {}, h("tr", {}, names)), h("tbody", {}, found.members.map(row))),
    ),
  ];
}
