// Where the words, tags and phrases of a tree stand: words in a row, each phrase above its children. A folded phrase
// takes the place of one word.

import { isRightToLeft } from "/static/dom.js";

export const FONT = 15; // pixels
const GAP = 16; // between two words
const NARROWEST = 30; // of a column
const MARGIN = 10;
const STEP = 36; // between two levels
const CLOSE = 28; // of trees that are deep
const DEEP = 10; // levels
const LINE = 22; // from a tag to its word
const LONGEST = 24; // characters of a word that are drawn

let canvas = null;

export function widthOf(text) {
  canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}

export const shorten = (text) => {
  const letters = [...text];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : text;
};

export const isMirrored = (view) =>
  view.direction === "rtl" || (view.direction !== "ltr" && isRightToLeft(view.words));

// The children of each node, the root under the key -1.
export function childrenOf(nodes) {
  const children = new Map([[-1, []]]);
  for (const [index, node] of nodes.entries()) {
    const parent = node.parent ?? -1;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(index);
  }
  for (const list of children.values()) list.sort((a, b) => nodes[a].start - nodes[b].start);
  return children;
}

export const keyOf = (node) => `${node.start} ${node.end} ${node.label}${node.is_tag ? " tag" : ""}`;

// Columns from the words and folded phrases: { start, end, text, width, x }.
function columnsOf(view, folded) {
  const columns = [];
  for (let k = 0; k < view.words.length;) {
    const fold = folded.find((node) => node.start === k);
    const text = fold ? foldedText(view.words, fold) : shorten(view.words[k]);
    const end = fold ? fold.end : k + 1;
    columns.push({ start: k, end, text, isFolded: Boolean(fold), width: Math.max(NARROWEST, widthOf(text)) });
    k = end;
  }
  return columns;
}

function foldedText(words, { start, end }) {
  const inside = words.slice(start, end);
  const shown = inside.length > 2 ? [inside[0], "…", inside.at(-1)] : inside;
  return shown.map(shorten).join(" ");
}

// folds: keys of the nodes that are folded. Returns { places: Map from node index to { x, y }, columns, height, width,
// base, children }.
export function layOut(view, folds) {
  const { nodes } = view;
  const children = childrenOf(nodes);
  const isHidden = hiddenNodes(nodes, folds);
  const outer = nodes.filter((node, index) => folds.has(keyOf(node)) && !node.is_tag && !isHidden[index]);
  const columns = columnsOf(view, outer);
  const columnOf = new Map();
  for (const column of columns) for (let k = column.start; k < column.end; k++) columnOf.set(k, column);
  for (const [index, node] of nodes.entries()) {
    const column = columnOf.get(node.start);
    if (!isHidden[index] && column && node.end <= column.end)
      column.width = Math.max(column.width, widthOf(node.label) + 8);
  }
  let width = MARGIN;
  for (const column of columns) {
    column.x = width + (column.width + GAP) / 2;
    width += column.width + GAP;
  }
  width += MARGIN;
  if (isMirrored(view)) for (const column of columns) column.x = width - column.x;
  const places = placesOf(nodes, { children, isHidden, folds, columnOf });
  const top = Math.max(1, ...[...places.values()].map((place) => place.level));
  const step = top > DEEP ? CLOSE : STEP;
  const base = MARGIN + 18 + (top - 1) * step; // of the tags
  for (const place of places.values()) place.y = base - (place.level - 1) * step;
  return { places, columns, children, width, base, height: base + LINE + 34, wordY: base + LINE };
}

function hiddenNodes(nodes, folds) {
  const isHidden = [];
  for (const [index, node] of nodes.entries()) {
    const above = node.parent;
    const isBelow = above !== null && above !== undefined;
    isHidden[index] = isBelow && (isHidden[above] || folds.has(keyOf(nodes[above])));
  }
  return isHidden;
}

function placesOf(nodes, { children, isHidden, folds, columnOf }) {
  const places = new Map();
  // Children stand behind their parents in the list.
  for (let index = nodes.length - 1; index >= 0; index--) {
    if (isHidden[index]) continue;
    const node = nodes[index];
    const below = folds.has(keyOf(node)) ? [] : (children.get(index) ?? []);
    const inner = below.map((child) => places.get(child)).filter(Boolean);
    if (inner.length) {
      const x = (inner[0].x + inner.at(-1).x) / 2;
      places.set(index, { x, level: 1 + Math.max(...inner.map((place) => place.level)) });
    } else places.set(index, { x: columnOf.get(node.start)?.x ?? 0, level: node.is_tag ? 1 : 2 });
  }
  return places;
}

// The shape of the lines from a phrase to its children: along a bar below it, and down to each.
export function branch(from, to) {
  const turn = from.y + 11;
  const down = to.y - 15;
  const side = Math.sign(to.x - from.x);
  const bend = Math.min(6, Math.abs(to.x - from.x), Math.max(0, down - turn));
  if (!side || bend < 1) return `M${from.x} ${from.y + 8}L${to.x} ${down}`;
  return (
    `M${from.x} ${from.y + 8}V${turn}H${to.x - side * bend}` +
    `Q${to.x} ${turn} ${to.x} ${turn + bend}V${down}`
  );
}
