// The drawn phrases, tags and words of a tree that is edited.

import { keyOf, shorten } from "/static/annotate-layout.js";
import { percent, s } from "/static/dom.js";

const DOUBT = 0.5; // probability below which a phrase is marked as doubtful
export const BAND = 56; // pixels at the lower edge that the words take
const RAIL = 26; // pixels of the bar that tells the probability

const isKnown = (probability) => probability !== null && probability !== undefined;

export function nodeGroup(node, { index, place: { x, y }, words, isFolded }) {
  const wide = Math.max(24, 9.4 * [...node.label].length + 10);
  const isDoubtful = isKnown(node.probability) && node.probability < DOUBT && !node.is_given;
  const classes = ["node", node.is_given && "asked", isDoubtful && "doubt", isFolded && "folded"];
  const group = s(
    "g",
    {
      class: classes.filter(Boolean).join(" "),
      role: "button",
      tabindex: "-1",
      "data-index": index,
      "data-key": keyOf(node),
      "aria-label": spoken(node, words, isFolded),
    },
    s("rect", { class: "hit", x: x - wide / 2, y: y - 16, width: wide, height: 24, rx: 5 }),
    s("text", { class: node.is_tag ? "tag" : "phrase", x, y, "text-anchor": "middle" }, node.label),
  );
  if (!node.is_tag && isKnown(node.probability)) {
    const bar = { x: x - RAIL / 2, y: y + 4.5, height: 3, rx: 1.5 };
    group.append(
      s("rect", { class: "rail", ...bar, width: RAIL }),
      s("rect", { class: "gauge", ...bar, width: RAIL * node.probability }),
    );
  }
  if (node.is_given) group.append(s("circle", { class: "pin", cx: x + wide / 2 - 1, cy: y - 14, r: 3.5 }));
  if (isFolded) group.append(s("path", { class: "closed", d: `M${x} ${y + 10}l-11 13h22z` }));
  return group;
}

function spoken(node, words, isFolded) {
  const parts = [`${node.label}: ${words.slice(node.start, node.end).join(" ")}`];
  if (isKnown(node.probability)) parts.push(`probability ${percent(node.probability)}`);
  if (node.is_given) parts.push("set by hand");
  if (isFolded) parts.push("folded");
  return parts.join(", ");
}

// The words and folded phrases, in a row that stays in sight.
export function wordRow({ columns, wordY, width, height }, words) {
  const band = { class: "band", x: 0, y: wordY - 20, width, height: height - wordY + 20 };
  return s(
    "g",
    { class: "desk-words" },
    s("rect", band),
    columns.map((column) => wordGroup(column, wordY, words)),
  );
}

// Moves the row to the lower edge of its box, where a deep tree is scrolled up. height: of the tree.
export function pinWords(row, box, height) {
  const drawn = row.ownerSVGElement.getBoundingClientRect();
  const edge = box.getBoundingClientRect().top + box.clientTop + box.clientHeight;
  const up = (Math.max(0, drawn.bottom - edge) / Math.max(1, drawn.height)) * height;
  row.setAttribute("transform", `translate(0 ${-up})`);
  row.classList.toggle("pinned", up > 1);
}

// A column of the layout.
function wordGroup({ x, start, text, isFolded, width }, y, words) {
  const word = {
    "data-word": start,
    role: "button",
    tabindex: "-1",
    "aria-label": `word ${start + 1}: ${words[start]}`,
  };
  return s(
    "g",
    { class: isFolded ? "leaf folded" : "leaf", ...(isFolded ? {} : word) },
    s("rect", { class: "hit", x: x - width / 2 - 6, y: y - 17, width: width + 12, height: 28, rx: 4 }),
    s("text", { class: "word", x, y, "text-anchor": "middle" }, isFolded ? text : shorten(text)),
  );
}
