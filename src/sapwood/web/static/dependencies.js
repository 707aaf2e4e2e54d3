// A dependency tree, made to be pointed at, and the panel of a word.

import { bars, h, isRightToLeft } from "/static/dom.js";
import { drawingOf } from "/static/tree.js";

const headName = (report, head) => (head ? report.words[head - 1] : "the root");

// onshow: called with the number of the word under the pointer or focus; onchoose: of the one that was clicked.
export function arcsFigure(report, { onshow, onchoose }) {
  const svg = drawingOf(report.svg);
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `Dependencies: ${report.words.join(" ")}`);
  const lines = [...svg.querySelectorAll("path[data-node]")];
  const show = (k) => {
    for (const line of lines) line.classList.toggle("lit", Number(line.dataset.node) === k + 1);
    onshow(k);
  };
  for (const text of svg.querySelectorAll("text[data-node]")) {
    const k = Number(text.dataset.node) - 1;
    text.addEventListener("pointerover", () => show(k));
    if (text.classList.contains("word")) makeWord(text, k, { report, svg, show, onchoose });
  }
  return { element: svg, show, wordAt: (k) => wordAt(svg, k) };
}

const wordAt = (svg, k) => svg.querySelector(`text.word[data-node="${k + 1}"]`);

function makeWord(text, k, { report, svg, show, onchoose }) {
  const node = report.nodes[k];
  text.classList.add("node");
  text.setAttribute("tabindex", k === 0 ? "0" : "-1");
  text.setAttribute("role", "button");
  text.setAttribute("aria-label", `${node.word}: ${node.relation} of ${headName(report, node.head)}`);
  text.addEventListener("focus", () => show(k));
  text.addEventListener("click", () => onchoose(k));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      onchoose(k);
      event.preventDefault();
      return;
    }
    const isMirrored = isRightToLeft(report.words);
    const step = { ArrowLeft: isMirrored ? 1 : -1, ArrowRight: isMirrored ? -1 : 1 }[event.key];
    const to = event.key === "ArrowUp" ? node.head - 1 : step ? k + step : null;
    const other = to === null ? null : wordAt(svg, to);
    if (other) {
      text.setAttribute("tabindex", "-1");
      other.setAttribute("tabindex", "0");
      other.focus();
    }
    if (step || event.key === "ArrowUp") event.preventDefault();
  });
}

export function arcsOutline(report) {
  const item = (node) =>
    h(
      "li",
      {},
      h("span", { class: "label" }, node.word),
      " ",
      h("span", { class: "tag" }, node.upos),
      ` ${node.relation} of ${headName(report, node.head)}`,
    );
  return h(
    "details",
    {},
    h("summary", {}, "Outline: the arcs as a list"),
    h("ul", { class: "outline", dir: "auto" }, report.nodes.map(item)),
  );
}

export function wordParts(report, k) {
  const node = report.nodes[k];
  const rivals = (node.rivals ?? []).map((rival) => [headName(report, rival.head), rival.posterior]);
  const tag = `${node.upos} ${node.xpos === "_" ? "" : node.xpos}`;
  return [
    h(
      "div",
      { class: "part" },
      h("span", { class: "big" }, node.word),
      h("p", { class: "quote", dir: "auto" }, `${node.relation} of ${headName(report, node.head)}`),
      h("dl", { class: "plain" }, h("dt", {}, "tag"), h("dd", {}, tag)),
    ),
    node.posterior === undefined
      ? null
      : h(
          "div",
          { class: "part" },
          h("p", { class: "small" }, "Posterior of the head"),
          bars([[headName(report, node.head), node.posterior], ...rivals], { most: 1 }),
        ),
  ];
}
