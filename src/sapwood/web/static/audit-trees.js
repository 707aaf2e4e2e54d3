// The annotated and the suggested tree of a finding, side by side, with what only one of them has marked.

import { arcsFigure } from "/static/dependencies.js";
import { h, put } from "/static/dom.js";
import { treeFigure } from "/static/tree.js";

const TOKEN = /\(([^\s()]*)|\)|[^\s()]+/g;

// The nodes of a tree in brackets, in pre-order, as treeFigure takes them.
export function nodesOf(brackets) {
  const nodes = [];
  const open = [];
  let nWords = 0;
  for (const [token, label] of brackets.matchAll(TOKEN)) {
    if (token === ")") {
      open.pop().end = nWords;
    } else if (label === undefined) {
      Object.assign(open.at(-1), { word: token, is_tag: true });
      nWords += 1;
    } else {
      const node = { label, start: nWords, end: nWords, depth: open.length, is_tag: false, posterior: null };
      nodes.push(node);
      open.push(node);
    }
  }
  return nodes;
}

// The words of CoNLL-U, as arcsFigure takes them.
export function wordsOf(conllu) {
  const rows = conllu.split("\n").map((line) => line.split("\t"));
  return rows
    .filter(([id]) => /^\d+$/.test(id))
    .map(([, word, , upos, xpos, , head, relation]) => ({ word, upos, xpos, head: Number(head), relation }));
}

const key = (node) => `${node.label} ${node.start} ${node.end}`;

// For each node of the first list whether the second has none like it.
export function unmatched(nodes, others) {
  const counts = new Map();
  for (const other of others) counts.set(key(other), (counts.get(key(other)) ?? 0) + 1);
  return nodes.map((node) => {
    const left = counts.get(key(node)) ?? 0;
    counts.set(key(node), left - 1);
    return left <= 0;
  });
}

// drawings: the two drawings of the server as texts; null where the tree is too large to draw.
export function treePair(finding, drawings) {
  const texts = [finding.annotated_tree, finding.suggested_tree];
  const titles = ["Annotated", "Suggested"];
  const make = finding.annotated_tree?.trimStart().startsWith("(") ? bracketFigures : arcFigures;
  const figures = drawings?.every(Boolean) ? make(texts, drawings, titles) : texts.map(() => null);
  const figure = (k) => {
    const box = h("div", { class: "figure" });
    put(box, figures[k] ?? h("pre", { class: "source", dir: "auto" }, texts[k] ?? "no tree"));
    return h(
      "figure",
      { class: "audit-tree", "data-side": titles[k].toLowerCase() },
      h("figcaption", {}, titles[k]),
      box,
    );
  };
  return h("div", { class: "audit-pair" }, figure(0), figure(1));
}

function bracketFigures(texts, drawings, titles) {
  const both = texts.map(nodesOf);
  return both.map((nodes, k) => {
    const words = nodes.filter((node) => node.is_tag).map((node) => node.word);
    const figure = treeFigure({ svg: drawings[k], words, nodes }, { label: titles[k] });
    const differs = unmatched(nodes, both[1 - k]);
    figure.mark("differs", (_, index) => differs[index]);
    return figure.element;
  });
}

function arcFigures(texts, drawings) {
  const both = texts.map(wordsOf);
  return both.map((nodes, k) => {
    const words = nodes.map((node) => node.word);
    const figure = arcsFigure({ svg: drawings[k], words, nodes }, { onshow: () => {}, onchoose: () => {} });
    for (const [index, node] of nodes.entries()) {
      const other = both[1 - k][index];
      const parts = figure.element.querySelectorAll(`[data-node="${index + 1}"]`);
      const isArc = node.head !== other?.head || node.relation !== other?.relation;
      for (const part of parts) {
        const isTag = part.classList.contains("tag");
        const isWord = part.classList.contains("word");
        if (isTag ? node.upos !== other?.upos : isArc && !isWord) part.classList.add("differs");
      }
    }
    return figure.element;
  });
}

// Scrolls a pair of trees so that the first difference of each is in the middle: the word, where an arc is wider than
// its element.
export function showDifferences(pair) {
  for (const box of pair.querySelectorAll(".figure")) {
    const first = box.querySelector("path.differs") ?? box.querySelector(".differs");
    if (!first) continue;
    const isWide = first.getBoundingClientRect().width > 0.9 * box.clientWidth;
    const word = first.dataset.node && box.querySelector(`text.word[data-node="${first.dataset.node}"]`);
    const shown = isWide && word ? word : first;
    const [inner, outer] = [shown.getBoundingClientRect(), box.getBoundingClientRect()];
    box.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
    if (word) box.scrollTop = box.scrollHeight;
  }
}
