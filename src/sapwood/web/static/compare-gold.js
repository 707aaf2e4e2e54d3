// Tables of two models on gold trees: scores, classes of errors, and the sentences.

import { bars, h, number, plural } from "/static/dom.js";

const SCORES = [
  ["F1", "f1"],
  ["recall", "recall"],
  ["precision", "precision"],
  ["exact", "complete_match"],
  ["tags", "tagging_accuracy"],
];
const MOST_ROWS = 100;
const MOST_WORDS = 16; // of a sentence in the table

const column = (name) => h("th", { scope: "col" }, name);

const table = (caption, columns, rows) =>
  h(
    "table",
    {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map(column))),
    h("tbody", {}, rows),
  );

// found: the answer of compare on gold trees.
export function scoreTable(found) {
  const row = (one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, one.model),
      SCORES.map(([, key]) => h("td", {}, number(one.scores[key], 2))),
      h("td", {}, String(one.fallbacks)),
    );
  const caption = `${plural(found.sentences.length, "gold tree")}, in percent`;
  const columns = ["Model", ...SCORES.map(([name]) => name), "no parse"];
  return h(
    "section",
    { class: "card", "aria-label": "Scores" },
    h("div", { class: "scroll" }, table(caption, columns, found.models.map(row))),
  );
}

// models: for each model its errors by kind, with how many brackets are missing and extra.
export function errorClasses(models) {
  const kinds = [...new Set(models.flatMap((one) => Object.keys(one.kinds)))];
  if (!kinds.length) return h("p", { class: "none" }, "No errors at all.");
  const count = (one, kind) => (one.kinds[kind]?.missing ?? 0) + (one.kinds[kind]?.extra ?? 0);
  const most = Math.max(1, ...models.flatMap((one) => kinds.map((kind) => count(one, kind))));
  const column = (one) => {
    const rows = kinds.map((kind) => [kind, count(one, kind)]);
    return h("div", {}, h("p", { class: "small" }, one.model), bars(rows, { most, format: String }));
  };
  return h(
    "section",
    { class: "card", "aria-label": "Classes of errors" },
    h("h2", {}, "Classes of errors"),
    h("div", { class: "pair" }, models.map(column)),
  );
}

// onchoose is called with the row of the sentence that was clicked.
export function sentenceTable(rows, models, onchoose) {
  const choose = (row, line) => {
    for (const other of element.querySelectorAll("tbody tr")) other.removeAttribute("aria-selected");
    line.setAttribute("aria-selected", "true");
    onchoose(row);
  };
  const element = table(
    "Sentences, the hardest first; choose one to see its trees",
    ["Sentence", ...models],
    rows.slice(0, MOST_ROWS).map((row) => sentenceRow(row, choose)),
  );
  return h("section", { class: "card" }, h("div", { class: "scroll" }, element));
}

function sentenceRow(row, onchoose) {
  const { words } = row;
  const text = words.length > MOST_WORDS ? `${words.slice(0, MOST_WORDS - 1).join(" ")} …` : words.join(" ");
  const line = h(
    "tr",
    {
      class: "pick",
      tabindex: "0",
      onclick: () => onchoose(row, line),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        onchoose(row, line);
        event.preventDefault();
      },
    },
    h("td", { dir: "auto" }, text),
    row.f1.map((f1) => h("td", {}, number(f1, 1))),
  );
  return line;
}
