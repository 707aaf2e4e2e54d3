// Symbols of a grammar as people read them. Phrases of more than two children are built in steps, through internal
// symbols such as @NP:<JJ; unless somebody wants to see those, the children that they stand for are shown instead.

import { h } from "/static/dom.js";

export const isInternal = (symbol) => symbol.startsWith("@");

// "@NP:<JJ" begins with JJ, "@VP:>NP" ends with NP, "@NP" says neither.
function plainSymbol(symbol) {
  if (!isInternal(symbol)) return symbol;
  const at = symbol.indexOf(":", 1);
  const edges = at < 0 ? [] : symbol.slice(at + 1).split(/,(?=[<>])/);
  const side = (mark) => edges.filter((edge) => edge.startsWith(mark)).map((edge) => edge.slice(1));
  return [...side("<"), "…", ...side(">").reverse()].join(" ");
}

const phraseOf = (symbol) => symbol.slice(1).split(":")[0];

// A rule's right side, such as "DT @NP:<JJ".
export const plainRule = (rule) => rule.split(" ").map(plainSymbol).join(" ");

// A place, such as "@VP:>NP -> VBD [NP]".
export function plainContext(context) {
  const [above, below] = context.split(" -> ");
  if (below === undefined) return above === "(root)" ? "the whole sentence" : above;
  const parts = below.split(" ").map((part) => {
    const inner = part.match(/^\[(.+)\]$/)?.[1];
    return inner ? `[${plainSymbol(inner)}]` : plainSymbol(part);
  });
  return `${isInternal(above) ? `part of ${phraseOf(above)}` : above} → ${parts.join(" ")}`;
}

// "@NP:<JJ" as a heading.
export function spokenSymbol(symbol) {
  if (!isInternal(symbol)) return symbol;
  return `part of ${phraseOf(symbol)}: ${plainSymbol(symbol)}`;
}

const SIGNS = [
  ["NP|PRP", "one constituent with two labels: an NP that consists of a PRP alone"],
  ["NP^S", "an NP whose parent is an S, in grammars that keep parents"],
  ["[NP]", "the place of the constituent itself in the phrase above it"],
  ["JJ …", "part of a longer phrase that begins with JJ; the grammar's own name for it is @NP:<JJ"],
  ["… NP", "part of a longer phrase that ends with NP; the grammar's own name for it is @VP:>NP"],
  ["@", "an internal symbol: phrases of more than two children are built in steps, and @ marks the steps"],
  [":<  :>", "the child at the left edge (:<) or at the right edge (:>) of an internal symbol"],
];

export function legend() {
  return h(
    "details",
    { class: "legend" },
    h("summary", {}, "What the signs mean"),
    h(
      "dl",
      { class: "plain" },
      SIGNS.map(([sign, meaning]) => [h("dt", {}, h("code", {}, sign)), h("dd", {}, meaning)]),
    ),
  );
}
