// The chart as a triangle: a cell for each span; the colour shows the posterior of its most probable phrase.

import { h, isRightToLeft, percent, s } from "/static/dom.js";

const MOST_NAMES = 30; // words up to which cells are named

// What the colours mean, in light and dark pages alike.
export const chartScale = () =>
  h(
    "span",
    { class: "facts" },
    h("span", { class: "scale" }, "0 %", h("i", { "aria-hidden": "true" }), "100 % likely"),
    h("span", {}, "framed cells are in the tree"),
  );

const HEIGHT = 0.86; // of a cell over its width
const MARGIN = 84; // pixels below the cells, for the words

// Sizes and positions in the triangle. Words that are written from right to left are in that order.
class Geometry {
  constructor(words) {
    this.n = words.length;
    this.size = this.n <= 12 ? 40 : this.n <= 25 ? 28 : this.n <= 45 ? 18 : 13;
    this.isMirrored = isRightToLeft(words);
    this.width = this.n * this.size + 2;
    this.height = this.n * this.size * HEIGHT + MARGIN;
    this.base = this.n * this.size * HEIGHT + 4;
  }

  // The upper corner of the cell of a span.
  corner(start, end) {
    const x = ((start + end) / 2) * this.size + 1;
    return [this.isMirrored ? this.width - x : x, this.base - (end - start) * this.size * HEIGHT];
  }

  diamond([x, y]) {
    const [dx, dy] = [this.size / 2, (this.size * HEIGHT) / 2];
    return `M${x} ${y}l${dx} ${dy}l${-dx} ${dy}l${-dx} ${-dy}z`;
  }
}

// onpoint, onchoose: called with the span [start, end] of a cell; onpoint also with null when the pointer leaves.
export function chartFigure(report, { onpoint = () => {}, onchoose = () => {} } = {}) {
  const geometry = new Geometry(report.words);
  const { width, height, n } = geometry;
  const svg = s("svg", {
    class: "chart",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label":
      "Chart: one cell for each span of words, in a stronger colour where a phrase is likelier. Arrow keys walk.",
  });
  const cells = new Map(report.chart.map((cell) => [`${cell.start} ${cell.end}`, cell]));
  svg.append(emptyCells(cells, geometry));
  const drawn = new Map();
  const inTree = new Set(
    report.nodes.filter((node) => !node.is_tag).map((node) => `${node.start} ${node.end}`),
  );
  for (const [key, cell] of cells) {
    const path = cellPath(cell, { key, words: report.words, isInTree: inTree.has(key), geometry });
    drawn.set(key, path);
    svg.append(path, ...cellName(cell, geometry));
  }
  svg.append(...report.words.map((word, k) => wordBelow(word, k, geometry)));
  const first = drawn.get(`0 ${n}`) ?? drawn.values().next().value;
  first?.setAttribute("tabindex", "0");
  listen(svg, drawn, { onpoint, onchoose, isMirrored: geometry.isMirrored });
  return {
    element: svg,
    light(span) {
      for (const [key, path] of drawn) path.classList.toggle("lit", span !== null && key === span.join(" "));
    },
  };
}

function emptyCells(cells, geometry) {
  let d = "";
  for (let length = 1; length <= geometry.n; length++)
    for (let start = 0; start + length <= geometry.n; start++)
      if (!cells.has(`${start} ${start + length}`))
        d += geometry.diamond(geometry.corner(start, start + length));
  return s("path", { class: "empty", d });
}

function cellPath(cell, { key, words, isInTree, geometry }) {
  const [, p] = cell.labels[0];
  const labels = cell.labels.slice(0, 4).map(([label, q]) => `${label} ${percent(q)}`);
  const title = `${words.slice(cell.start, cell.end).join(" ")}: ${labels.join(", ")}`;
  const fill = `color-mix(in oklab, var(--p1) ${Math.round(100 * p)}%, var(--p0))`;
  const attributes = {
    class: `chart-cell${isInTree ? " best" : ""}`,
    d: geometry.diamond(geometry.corner(cell.start, cell.end)),
    tabindex: "-1",
    role: "button",
    "aria-label": title,
    fill,
    "data-key": key,
  };
  return s("path", { ...attributes, style: { fill } }, s("title", {}, title));
}

// The likeliest label, in cells that are large and likely enough.
function cellName(cell, geometry) {
  const { n, size } = geometry;
  const [name, p] = cell.labels[0];
  if (n > MOST_NAMES || p < 0.2 || size < 18) return [];
  const [x, y] = geometry.corner(cell.start, cell.end);
  const text = name.length > 4 && size < 40 ? `${name.slice(0, 3)}…` : name;
  const style = { "font-size": `${Math.min(11, size * 0.34)}px` };
  const look = { class: `name${p > 0.55 ? " pale" : ""}`, "text-anchor": "middle", style };
  return [s("text", { ...look, x, y: y + (size * HEIGHT) / 2 + 4 }, text)];
}

function wordBelow(word, k, { size, base, width, isMirrored }) {
  const x = isMirrored ? width - (k + 0.5) * size : (k + 0.5) * size + 1;
  const y = base + 14;
  return s(
    "text",
    {
      x,
      y,
      transform: `rotate(${isMirrored ? -60 : 60} ${x} ${y})`,
      "text-anchor": isMirrored ? "end" : "start",
      style: { "font-size": `${Math.max(9, Math.min(13, size * 0.6))}px` },
    },
    word.length > 14 ? `${word.slice(0, 13)}…` : word,
  );
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

// drawn: the cells by "start end".
function listen(svg, drawn, { onpoint, onchoose, isMirrored }) {
  const on = (name, action) =>
    svg.addEventListener(name, (event) => {
      const cell = event.target.closest(".chart-cell");
      if (cell) action(cell.dataset.key.split(" ").map(Number), event);
    });
  on("pointerover", (span) => onpoint(span));
  on("focusin", (span) => onpoint(span));
  on("click", (span) => onchoose(span));
  svg.addEventListener("pointerleave", () => onpoint(null));
  on("keydown", (span, event) => {
    if (event.key === "Enter" || event.key === " ") {
      onchoose(span);
      event.preventDefault();
      return;
    }
    const [dx, dy] = ARROWS[event.key] ?? [0, 0];
    if (!dx && !dy) return;
    event.preventDefault();
    const to = nearest(drawn, span, isMirrored ? -dx : dx, dy);
    if (!to) return;
    for (const path of drawn.values()) path.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  });
}

// The cell that is closest in a direction: along the row, or a wider or narrower one.
function nearest(drawn, [start, end], dx, dy) {
  let best = null;
  let least = Infinity;
  for (const [key, path] of drawn) {
    const [i, j] = key.split(" ").map(Number);
    const along = (i + j - start - end) / 2;
    const up = j - i - (end - start);
    const forward = dx ? along * dx : up * dy;
    const aside = dx ? Math.abs(up) : Math.abs(along);
    if (forward <= 0) continue;
    const cost = forward + 3 * aside;
    if (cost < least) {
      least = cost;
      best = path;
    }
  }
  return best;
}
