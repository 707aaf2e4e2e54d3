// What the planted errors showed about an audit, and the help about its keys.

import { bars, h, percent } from "/static/dom.js";

const KEYS = [
  ["j, ↓, →", "next finding"],
  ["k, ↑, ←", "previous finding"],
  ["a", "accept the suggestion with all its parts, and go on"],
  ["r", "reject it, and go on"],
  ["s", "skip it, and go on"],
  ["u", "undo the decision"],
  ["1 – 9", "go to a part; there a, r, s and u are about that part alone"],
  ["?", "this help"],
];
const FRACTIONS = new Set(["precision_at_100", "error_rate"]);
const spoken = (name) => name.replaceAll("_", " ");
const textOf = (name, value) =>
  value === null ? "–" : FRACTIONS.has(name) ? percent(value) : value.toLocaleString("en");

export function trustPanel(trust) {
  const plain = Object.entries(trust).filter(([, value]) => value === null || typeof value !== "object");
  const recall = Object.entries(trust.recall ?? {}).filter(([, value]) => typeof value === "number");
  if (!plain.length && !recall.length) return null;
  return h(
    "details",
    { class: "card audit-trust" },
    h("summary", {}, "What errors planted in these trees showed"),
    h(
      "dl",
      { class: "plain" },
      plain.map(([name, value]) => [h("dt", {}, spoken(name)), h("dd", {}, textOf(name, value))]),
    ),
    recall.length
      ? [h("p", { class: "small" }, "Recall of planted errors, by kind"), bars(recall, { most: 1 })]
      : null,
  );
}

export function auditHelp() {
  const dialog = h(
    "dialog",
    { class: "card audit-help", "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h(
      "dl",
      { class: "plain" },
      KEYS.map(([key, meaning]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)]),
    ),
    h(
      "p",
      { class: "small" },
      "Decisions stay in this browser. Save them, then run: sapwood audit --apply decisions.json, " +
        "for CoNLL-U: sapwood depend audit --apply decisions.json",
    ),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  return dialog;
}
