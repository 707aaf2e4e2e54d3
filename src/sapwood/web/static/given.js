// Constraints on a tree: items { kind, start, end, label } over the words [start, end). A "span" must be there,
// a "not" must not be there, and a "tag" is the tag of a word; the label null stands for any phrase.

const KINDS = new Set(["span", "not", "tag"]);

const isPlace = (value) => Number.isInteger(value) && value >= 0;

function isItem([kind, start, end, label]) {
  const isNamed = typeof label === "string" || (label === null && kind !== "tag");
  return KINDS.has(kind) && isPlace(start) && isPlace(end) && start < end && isNamed;
}

// The items that an address holds, and the number of words that they were asked of.
export function readGiven(text) {
  try {
    const [n_words, ...rows] = JSON.parse(text);
    if (!isPlace(n_words)) return { n_words: 0, items: [] };
    const items = rows.filter(isItem).map(([kind, start, end, label]) => ({ kind, start, end, label }));
    return { n_words, items: items.filter((item) => item.end <= n_words) };
  } catch {
    return { n_words: 0, items: [] };
  }
}

export const writeGiven = (items, n_words) =>
  items.length
    ? JSON.stringify([n_words, ...items.map(({ kind, start, end, label }) => [kind, start, end, label])])
    : null;

const isOver = (one, other) => one.start === other.start && one.end === other.end;
export const isSame = (one, other) =>
  one.kind === other.kind && one.label === other.label && isOver(one, other);

// The items with one more. It takes the place of its opposite, and a tag that of the word's other tag.
export function addGiven(items, item) {
  const opposite = { ...item, kind: item.kind === "span" ? "not" : "span" };
  const isReplaced = (other) =>
    isSame(other, item) ||
    isSame(other, opposite) ||
    (item.kind === "tag" && other.kind === "tag" && isOver(item, other));
  return [...items.filter((other) => !isReplaced(other)), item];
}

export const dropGiven = (items, item) => items.filter((other) => !isSame(other, item));

// The fields of a request.
export function fieldsOf(items, n_words) {
  const tags = Array(n_words).fill(null);
  for (const item of items) if (item.kind === "tag") tags[item.start] = item.label;
  const spans = (kind) =>
    items.filter((item) => item.kind === kind).map(({ start, end, label }) => [start, end, label]);
  return {
    ...(tags.some((tag) => tag !== null) ? { tags } : {}),
    spans: spans("span"),
    forbidden: spans("not"),
  };
}

const MOST = 5; // words of a phrase that are repeated in full

// The words of a span, the middle of a long one left out.
export function quoteWords(words, { start, end }) {
  const inside = words.slice(start, end);
  if (inside.length < end - start) return end - start > 1 ? `words ${start + 1} to ${end}` : `word ${end}`;
  const short = inside.length > MOST ? [...inside.slice(0, 2), "…", ...inside.slice(-2)] : inside;
  return `“${short.join(" ")}”`;
}

// An item in words: its kind, and the words that it is about.
export function sayGiven(item, words) {
  const over = quoteWords(words, item);
  if (item.kind === "tag") return `${over} is ${item.label}`;
  const name = item.label ?? "a phrase";
  return item.kind === "span" ? `${name} over ${over}` : `not ${name} over ${over}`;
}
