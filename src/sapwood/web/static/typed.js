// The text that was typed: sentences, one per line or in running text, or trees in brackets.

import { ask } from "/static/api.js";
import { h, plural, put } from "/static/dom.js";

const TREE = /^\([^\s()]*\s*\([^\s()]+(\s+[^\s()]+\s*\)|\s*\(|$)/;
const LEAF = /\(\s*([^\s()]+)\s+([^\s()]+)\s*\)/g;
// A mark that ends a sentence, closing quotes and brackets, and then a capital.
const END = /([.!?…]+)["'”’»)\]]*\s+(?=["'“‘«([]?\p{Lu})/gu;
// In text that is tokenised already the mark is a token of its own, and capitals may be missing.
const END_ALONE = /\s\.\s+(?=[^\s.!?"'”’»)\]])/gu;
const ABBREVIATIONS = new Set(
  (
    "Mr Mrs Ms Dr Prof Rev Gen Col Maj Capt Lt Sgt Gov Sen Rep Pres Hon St Mt Jr Sr Inc Ltd Co Corp Dept " +
    "No Fig Vol vs etc cf al ca Jan Feb Mar Apr Aug Sept Oct Nov Dec e.g i.e"
  ).split(" "),
);

export const isTree = (text) => TREE.test(text.trim());

// The words of a tree in brackets, without traces.
export const wordsOf = (tree) =>
  [...tree.matchAll(LEAF)].filter(([, label]) => label !== "-NONE-").map(([, , word]) => word);

// Brackets that belong together, one piece for each tree; what is left open is a piece of its own.
function treesIn(text) {
  const found = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(") depth++;
    else if (text[at] === ")" && --depth === 0) {
      found.push(text.slice(start, at + 1).trim());
      start = at + 1;
    }
  }
  const rest = text.slice(start).trim();
  return rest ? [...found, rest] : found;
}

// Whether a period belongs to the word before it: an abbreviation, an initial, or U.S.
function isAbbreviated(before, mark) {
  const word = before.match(/[\p{L}.]+$/u)?.[0] ?? "";
  return mark === "." && (ABBREVIATIONS.has(word) || /^\p{L}$/u.test(word) || /\p{L}\.\p{L}/u.test(word));
}

function sentencesIn(line) {
  const ends = [...line.matchAll(END)].filter((end) => !isAbbreviated(line.slice(0, end.index), end[1]));
  const places = [...ends, ...line.matchAll(END_ALONE)].map((end) => end.index + end[0].length);
  const cuts = [0, ...[...new Set(places)].sort((a, b) => a - b), line.length];
  return cuts
    .slice(1)
    .map((cut, k) => line.slice(cuts[k], cut).trim())
    .filter(Boolean);
}

// items: sentences or trees; areTrees; isSplit: whether a line was taken for several sentences.
function readTyped(text, { byLine = false } = {}) {
  const trimmed = text.trim();
  if (isTree(trimmed)) return { items: treesIn(trimmed), areTrees: true, isSplit: false };
  const lines = trimmed
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  const items = byLine ? lines : lines.flatMap((line) => SPLIT.get(line) ?? sentencesIn(line));
  return { items, areTrees: false, isSplit: items.length > lines.length };
}

// Sentences of lines as the server has split them: it knows more than the expressions above, which stand in until it
// has answered, and where it does not.
const SPLIT = new Map();

async function askForSentences(text) {
  const lines = [...new Set(text.split("\n").map((line) => line.trim()))].filter(
    (line) => line && !SPLIT.has(line),
  );
  if (isTree(text) || !lines.some((line) => /\s/.test(line))) return false;
  const whole = lines.join("\n\n");
  const { sentences } = await ask("sentences", { text: whole });
  let start = 0;
  for (const line of lines) {
    const end = start + [...line].length; // in characters, as the server counts
    const own = sentences.filter((one) => one.char_start >= start && one.char_end <= end);
    SPLIT.set(
      line,
      own.map((one) => one.text),
    );
    start = end + 2;
  }
  return lines.some((line) => SPLIT.get(line).join("\n") !== sentencesIn(line).join("\n"));
}

const MOST = 50; // sentences that are offered
const short = (text) => (text.length > 40 ? `${text.slice(0, 38)}…` : text);

// A button for each item where there are several.
function itemChips({ items, areTrees, index }, onchoose) {
  if (items.length < 2) return [];
  return items.slice(0, MOST).map((item, k) => {
    const text = areTrees ? wordsOf(item).join(" ") : item;
    const facts = { type: "button", class: "chip", dir: "auto", "aria-pressed": String(k === index) };
    return h("button", { ...facts, onclick: () => onchoose(k) }, short(text));
  });
}

// Says that a text was taken for several sentences, and offers the other reading.
function splitNotice({ items, isSplit }, byLine, onchange) {
  if (!isSplit && !byLine) return null;
  const says = byLine
    ? "Each line is taken as one sentence. "
    : `${plural(items.length, "sentence")} found in this text; choose one of them below the text. `;
  const offers = byLine ? "Look for sentences in it" : "Take each line as one sentence";
  return h(
    "p",
    { class: "facts", role: "status" },
    h("span", {}, says),
    h("button", { type: "button", class: "link", onclick: () => onchange(!byLine) }, offers),
  );
}

// Shows a button for each sentence or tree of a text, and how the text was split. `state` is that of the address,
// `chips` and `notice` are the places for the two, `treeNotice()` is shown instead where the text is a tree, and
// `onchange(values)` takes the new values of the address. Returns the items and the index of the chosen one.
export function showTyped(text, { state, chips, notice, treeNotice = null, onchange }) {
  const byLine = Boolean(state.lines);
  const typed = readTyped(text, { byLine });
  typed.index = Math.min(Number(state.line ?? 0) || 0, Math.max(typed.items.length - 1, 0));
  put(chips, ...itemChips(typed, (index) => onchange({ line: index || null })));
  const splitAgain = (lines) => onchange({ lines: lines ? 1 : null, line: null });
  put(notice, typed.areTrees && treeNotice ? treeNotice() : splitNotice(typed, byLine, splitAgain));
  if (!byLine)
    askForSentences(text).then(
      (isOther) => isOther && onchange({}),
      () => {},
    );
  return typed;
}
