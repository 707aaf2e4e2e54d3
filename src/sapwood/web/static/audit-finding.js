// One finding of an audit: the sentence, what is annotated and what is suggested, the parts, the other places.

import { showDifferences, treePair } from "/static/audit-trees.js";
import { h, percent, plural, put } from "/static/dom.js";

export const KEYS = { accept: "a", reject: "r", skip: "s" };
const NAMES = { accept: "Accept", reject: "Reject", skip: "Skip" };
export const DONE = { accept: "accepted", reject: "rejected", skip: "skipped" };

export const placeOf = (finding) => `${finding.file}:${finding.line ?? "?"}`;
export const shortPlaceOf = (finding) => `${finding.file.split("/").at(-1)}:${finding.line ?? "?"}`;
export const changeOf = (part) => `${part.annotated || "–"} → ${part.suggested || "–"}`;

// The sentence, with the words of a region marked.
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

// made: the decision on it; ondecide is called with a new one, or with null for none.
export function findingView(finding, drawings, made, ondecide) {
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
    decisionBar(made, ondecide),
    pair,
    parts.length > 1 ? partTable(parts, choose) : null,
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

function decisionBar(made, ondecide) {
  const button = (decision) =>
    h(
      "button",
      {
        type: "button",
        class: "decide",
        "data-decision": decision,
        "aria-pressed": String(made === decision),
        onclick: () => ondecide(made === decision ? null : decision),
      },
      NAMES[decision],
      " ",
      h("kbd", {}, KEYS[decision]),
    );
  return h(
    "div",
    { class: "bar audit-bar", role: "group", "aria-label": "Decision" },
    Object.keys(KEYS).map(button),
  );
}

function partTable(parts, onchoose) {
  const row = (part) =>
    h(
      "tr",
      {
        class: "pick",
        tabindex: "0",
        onclick: () => onchoose(part),
        onkeydown: (event) => event.key === "Enter" && onchoose(part),
      },
      h("th", { scope: "row" }, part.kind),
      h("td", {}, changeOf(part)),
      h("td", {}, part.start === undefined ? "" : `${part.start + 1}–${part.end}`),
      h("td", {}, percent(part.p_annotated)),
      h("td", {}, percent(part.p_suggested)),
      h("td", {}, percent(part.expected_precision)),
    );
  const names = ["Part", "annotated → suggested", "words", "annotated", "suggested", "expected precision"];
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("caption", {}, `${plural(parts.length, "part")}; choose one to mark its words`),
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
