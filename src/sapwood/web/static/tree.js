// A drawing of the server's, made to be pointed at: nodes take focus, arrow keys walk, a thin bar shows the posterior.

import { h, percent, s } from "/static/dom.js";

const parser = new DOMParser();

// Without its style sheet: colours are the page's own, and inline ones are not allowed here. Words cannot look like
// one, since the server writes their angle brackets as entities.
export const unstyled = (text) => text.replace(/<style>.*?<\/style>\n?/s, "");

export function drawingOf(text) {
  return document.importNode(parser.parseFromString(unstyled(text), "image/svg+xml").documentElement, true);
}

// nodes: those of the report, in pre-order. Returns { element, light(spans), choose(index), mark(name, indexes) }.
export function treeFigure(report, { onpoint = () => {}, onchoose = () => {}, label = "Tree" } = {}) {
  const svg = drawingOf(report.svg);
  const { nodes } = report;
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `${label}: ${report.words.join(" ")}. Arrow keys walk the tree.`);
  const texts = [...svg.querySelectorAll("text")];
  const groups = [];
  for (const [index, node] of nodes.entries()) {
    const mine = texts.filter((text) => Number(text.dataset.node) === index);
    const head = mine[0];
    const x = Number(head.getAttribute("x"));
    const y = Number(head.getAttribute("y"));
    const width = Math.max(22, 9.6 * [...head.textContent].length + 8);
    const group = s("g", {
      class: "node",
      role: "button",
      tabindex: index === 0 ? "0" : "-1",
      "aria-label": spoken(node, report.words),
      "data-index": index,
    });
    group.append(
      s("rect", { class: "hit", x: x - width / 2, y: y - 16, width, height: node.is_tag ? 21 : 26, rx: 5 }),
    );
    // a word is part of its tag, and the line between them too
    const below = mine.length > 1 ? Number(mine[1].getAttribute("y")) : y;
    group.append(s("rect", { class: "reach", x: x - width / 2, y: y - 16, width, height: below - y + 21 }));
    if (node.is_tag) for (const text of mine.slice(1)) text.setAttribute("data-word", node.start);
    head.replaceWith(group);
    group.append(...mine);
    if (!node.is_tag && node.posterior !== null) {
      group.append(
        s("rect", { class: "rail", x: x - 13, y: y + 4.5, width: 26, height: 3, rx: 1.5 }),
        s("rect", { class: "gauge", x: x - 13, y: y + 4.5, width: 26 * node.posterior, height: 3, rx: 1.5 }),
      );
    }
    groups.push(group);
  }
  const kin = relatives(nodes);
  let current = 0;
  const focus = (index) => {
    groups[current].setAttribute("tabindex", "-1");
    current = index;
    groups[index].setAttribute("tabindex", "0");
    groups[index].focus();
  };
  const indexOf = (event) => {
    const group = event.target.closest(".node");
    return group ? Number(group.dataset.index) : null;
  };
  svg.addEventListener("pointerover", (event) => {
    const index = indexOf(event);
    if (index !== null) onpoint(index);
  });
  svg.addEventListener("pointerleave", () => onpoint(null));
  svg.addEventListener("focusin", (event) => {
    const index = indexOf(event);
    if (index !== null) onpoint(index);
  });
  svg.addEventListener("click", (event) => {
    const index = indexOf(event);
    if (index !== null) {
      focus(index);
      onchoose(index);
    }
  });
  const mirrored = svg.querySelector(".word") && rightToLeft(texts);
  svg.addEventListener("keydown", (event) => {
    const left = mirrored ? "next" : "previous";
    const right = mirrored ? "previous" : "next";
    const step = { ArrowUp: "parent", ArrowDown: "child", ArrowLeft: left, ArrowRight: right }[event.key];
    if (step) {
      const to = kin[current][step];
      if (to !== null) focus(to);
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      onchoose(current);
      event.preventDefault();
    }
  });
  return {
    element: svg,
    light(test) {
      groups.forEach((group, index) =>
        group.classList.toggle("lit", test !== null && test(nodes[index], index)),
      );
    },
    choose(index) {
      groups.forEach((group, place) => group.classList.toggle("chosen", place === index));
    },
    mark(name, test) {
      groups.forEach((group, index) => group.classList.toggle(name, test(nodes[index], index)));
    },
    focus,
  };
}

function rightToLeft(texts) {
  const words = texts.filter((text) => text.classList.contains("word"));
  return words.length > 1 && Number(words[0].getAttribute("x")) > Number(words.at(-1).getAttribute("x"));
}

function spoken(node, words) {
  const text = words.slice(node.start, node.end).join(" ");
  const sure = node.posterior === null ? "" : `, posterior ${percent(node.posterior)}`;
  return `${node.label}: ${text}${sure}`;
}

function relatives(nodes) {
  const kin = nodes.map(() => ({ parent: null, child: null, previous: null, next: null }));
  const path = [];
  for (const [index, node] of nodes.entries()) {
    path.length = node.depth;
    const parent = path.at(-1) ?? null;
    if (parent !== null) {
      kin[index].parent = parent;
      if (kin[parent].child === null) kin[parent].child = index;
      const before = kin[parent].last;
      if (before !== undefined) {
        kin[before].next = index;
        kin[index].previous = before;
      }
      kin[parent].last = index;
    }
    path.push(index);
  }
  return kin;
}

// The same tree as a list, for those who read instead of look.
export function outlineOf(report) {
  const top = h("ul", { class: "outline", dir: "auto" });
  const lists = [top];
  for (const node of report.nodes) {
    const words = report.words.slice(node.start, node.end).join(" ");
    const item = h(
      "li",
      {},
      h("span", { class: node.is_tag ? "tag" : "label" }, node.label),
      " ",
      node.is_tag ? words : h("small", {}, words),
      node.posterior !== null && !node.is_tag ? h("small", {}, ` · ${percent(node.posterior)}`) : null,
    );
    lists[node.depth].append(item);
    if (!node.is_tag) {
      const inner = h("ul", {});
      item.append(inner);
      lists[node.depth + 1] = inner;
    }
  }
  return h("details", {}, h("summary", {}, "Outline: the tree as a list"), top);
}
