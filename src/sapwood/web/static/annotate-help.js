// The keys of the annotation desk.

import { h } from "/static/dom.js";

const SHARED = [
  ["Enter", "accept the tree, and go to the next sentence"],
  ["1 – 3", "take one of the best alternatives"],
  ["n, p", "next sentence, previous sentence"],
  ["x", "skip the sentence, and go to the next"],
  ["u, Ctrl+Z", "undo"],
  ["Ctrl+Shift+Z, Ctrl+Y", "redo"],
  ["g", "all sentences: search, and go to one"],
  ["Escape", "leave a box, drop a selection"],
  ["?", "this help"],
];
const TREES = [
  ["← →", "sibling, or the word beside"],
  ["↑ ↓", "parent, first child"],
  ["Home, End", "first word, last word"],
  ["Shift+← →", "select several words; then type a label, and Enter adds the phrase"],
  ["a", "add a phrase over what is selected"],
  ["Delete", "remove the phrase"],
  ["r", "relabel the phrase"],
  ["t", "tag of the word"],
  ["m", "move the phrase: choose the parent with the arrow keys, then Enter"],
  ["s, j", "split the word, join it with the next"],
  ["f", "free what was set by hand"],
  ["Space", "fold the phrase, and unfold it"],
];
const ARCS = [
  ["← →", "word beside"],
  ["↑ ↓", "head, first dependent"],
  ["Home, End", "first word, last word"],
  ["h", "head: choose it with the arrow keys, ↑ or 0 for the root, then Enter"],
  ["r", "relation of the word"],
  ["t", "tag of the word"],
  ["s, j", "split the word, join it with the next"],
  ["f", "free what was set by hand"],
];
const MOUSE = {
  trees:
    "With the mouse or a finger: drag over words to add a phrase, drag a label onto another one to move the phrase " +
    "there, click a label to choose it, click it twice to fold it.",
  dependencies:
    "With the mouse or a finger: drag a word onto its head, or onto the bar above for the root; click an arc to name " +
    "its relation.",
};

export function helpDialog(kind) {
  const rows = (keys) =>
    keys.map(([key, text]) => [
      h(
        "dt",
        {},
        key.split(", ").map((one, k) => [k ? ", " : "", h("kbd", {}, one)]),
      ),
      h("dd", {}, text),
    ]);
  const dialog = h(
    "dialog",
    { class: "card desk-dialog", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("h3", {}, kind === "trees" ? "In the tree" : "In the arcs"),
    h("dl", { class: "plain" }, rows(kind === "trees" ? TREES : ARCS)),
    h("h3", {}, "Sentences"),
    h("dl", { class: "plain" }, rows(SHARED)),
    h("p", {}, MOUSE[kind]),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  return dialog;
}
