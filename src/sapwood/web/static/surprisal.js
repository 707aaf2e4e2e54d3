// Surprisal: how unexpected each word is, given the words before it.

import { ask } from "/static/api.js";
import { h, number, put } from "/static/dom.js";

const COLUMNS = [
  ["surprisal", "surprisal"],
  ["syntactic", "syntactic part"],
  ["lexical", "lexical part"],
  ["tag_entropy", "tag entropy"],
  ["word_entropy", "word entropy"],
];
const MOST_KEPT = 20;
const kept = new Map(); // answers by model and words

// The answer for a sentence; asked once, since constraints on its tree do not change it.
function surprisalOf(model, words) {
  const key = JSON.stringify([model, words]);
  if (!kept.has(key)) {
    const answer = ask("surprisal", { model, words });
    kept.set(key, answer);
    answer.catch(() => kept.delete(key));
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  }
  return kept.get(key);
}

// Bars under the words, and a table. places: { editor, table }; isWanted: whether the sentence is still on show.
export async function showSurprisal(model, words, places, isWanted) {
  try {
    const found = await surprisalOf(model, words);
    if (!isWanted()) return;
    places.editor.showSurprisal(found.words);
    const wasOpen = Boolean(places.table.querySelector("details")?.open);
    put(places.table, surprisalTable(found));
    places.table.firstChild.open = wasOpen;
  } catch {
    if (isWanted()) clearSurprisal(places); // the tree stays, without bars
  }
}

export function clearSurprisal({ editor, table }) {
  editor.showSurprisal(null);
  put(table);
}

// found: the answer. The table is made when it is opened.
function surprisalTable(found) {
  const place = h("div", { class: "scroll" });
  const total = found.total === null ? "infinite" : `${number(found.total, 1)} bits`;
  const details = h(
    "details",
    { class: "surprisal" },
    h("summary", {}, `Surprisal of each word: ${total} in all`),
    place,
  );
  details.addEventListener("toggle", () => {
    if (details.open && !place.firstChild) place.append(...tableParts(found));
  });
  return details;
}

function tableParts(found) {
  const head = COLUMNS.map(([, name]) => h("th", { scope: "col" }, name));
  const cell = (row, name) => {
    if (row[name] !== null) return number(row[name]);
    return name === "surprisal" && row.number === found.impossible ? "∞" : "–";
  };
  const body = found.words.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", dir: "auto" }, row.word === "</s>" ? "(end)" : row.word),
      COLUMNS.map(([name]) => h("td", {}, cell(row, name))),
    ),
  );
  return [
    h(
      "p",
      { class: "facts" },
      `In ${found.unit}. Entropies are those of the prediction before the word is read.`,
      impossibleText(found),
    ),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "word"), head)),
      h("tbody", {}, body),
    ),
  ];
}

function impossibleText(found) {
  const row = found.words.find((one) => one.number === found.impossible);
  if (!row) return null;
  const what = row.word === "</s>" ? "end the sentence here" : `have “${row.word}” here`;
  return ` The grammar cannot ${what}, so that nothing is known of what follows.`;
}
