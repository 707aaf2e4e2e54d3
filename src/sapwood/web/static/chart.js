// The chart as a triangle: a cell for each span, in a colour as strong as its likeliest phrase is probable.

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

export function chartFigure(report, { onpoint = () => {}, onchoose = () => {} } = {}) {
  const { words } = report;
  const n = words.length;
  const size = n <= 12 ? 40 : n <= 25 ? 28 : n <= 45 ? 18 : 13;
  const isMirrored = isRightToLeft(words);
  const width = n * size + 2;
  const height = n * size * 0.86 + 84;
  const base = n * size * 0.86 + 4;
  const cells = new Map(report.chart.map((cell) => [`${cell.start} ${cell.end}`, cell]));
  const inTree = new Set(
    report.nodes.filter((node) => !node.is_tag).map((node) => `${node.start} ${node.end}`),
  );
  const svg = s("svg", {
    class: "chart",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label":
      "Chart: one cell for each span of words, in a stronger colour where a phrase is likelier. Arrow keys walk.",
  });
  const at = (start, end) => {
    const x = ((start + end) / 2) * size + 1;
    return [isMirrored ? width - x : x, base - (end - start) * size * 0.86];
  };
  const diamond = ([x, y]) =>
    `M${x} ${y}l${size / 2} ${size * 0.43}l${-size / 2} ${size * 0.43}l${-size / 2} ${-size * 0.43}z`;
  let blank = "";
  for (let width_ = 1; width_ <= n; width_++)
    for (let start = 0; start + width_ <= n; start++)
      if (!cells.has(`${start} ${start + width_}`)) blank += diamond(at(start, start + width_));
  svg.append(s("path", { class: "empty", d: blank }));
  const drawn = new Map();
  for (const [key, cell] of cells) {
    const [name, p] = cell.labels[0];
    const place = at(cell.start, cell.end);
    const title = `${words.slice(cell.start, cell.end).join(" ")}: ${cell.labels
      .slice(0, 4)
      .map(([label, q]) => `${label} ${percent(q)}`)
      .join(", ")}`;
    const path = s(
      "path",
      {
        class: `chart-cell${inTree.has(key) ? " best" : ""}`,
        d: diamond(place),
        tabindex: "-1",
        role: "button",
        "aria-label": title,
        fill: `color-mix(in oklab, var(--p1) ${Math.round(100 * p)}%, var(--p0))`,
        "data-key": key,
      },
      s("title", {}, title),
    );
    path.style.fill = `color-mix(in oklab, var(--p1) ${Math.round(100 * p)}%, var(--p0))`;
    svg.append(path);
    drawn.set(key, path);
    if (n <= MOST_NAMES && p >= 0.2 && size >= 18) {
      const shown = name.length > 4 && size < 40 ? `${name.slice(0, 3)}…` : name;
      const text = s(
        "text",
        {
          class: `name${p > 0.55 ? " pale" : ""}`,
          x: place[0],
          y: place[1] + size * 0.43 + 4,
          "text-anchor": "middle",
        },
        shown,
      );
      text.style.fontSize = `${Math.min(11, size * 0.34)}px`;
      svg.append(text);
    }
  }
  for (const [k, word] of words.entries()) {
    const x = isMirrored ? width - (k + 0.5) * size : (k + 0.5) * size + 1;
    const text = s(
      "text",
      {
        x,
        y: base + 14,
        transform: `rotate(${isMirrored ? -60 : 60} ${x} ${base + 14})`,
        "text-anchor": isMirrored ? "end" : "start",
      },
      word.length > 14 ? `${word.slice(0, 13)}…` : word,
    );
    text.style.fontSize = `${Math.max(9, Math.min(13, size * 0.6))}px`;
    svg.append(text);
  }
  const whole = drawn.get(`0 ${n}`) ?? drawn.values().next().value;
  whole?.setAttribute("tabindex", "0");
  const spanOf = (event) => {
    const path = event.target.closest(".chart-cell");
    return path ? path.dataset.key.split(" ").map(Number) : null;
  };
  svg.addEventListener("pointerover", (event) => {
    const span = spanOf(event);
    if (span) onpoint(span);
  });
  svg.addEventListener("pointerleave", () => onpoint(null));
  svg.addEventListener("focusin", (event) => {
    const span = spanOf(event);
    if (span) onpoint(span);
  });
  svg.addEventListener("click", (event) => {
    const span = spanOf(event);
    if (span) onchoose(span);
  });
  svg.addEventListener("keydown", (event) => {
    const span = spanOf(event);
    if (!span) return;
    if (event.key === "Enter" || event.key === " ") {
      onchoose(span);
      event.preventDefault();
      return;
    }
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[
      event.key
    ] ?? [0, 0];
    if (!dx && !dy) return;
    event.preventDefault();
    const to = nearest(drawn, span, isMirrored ? -dx : dx, dy);
    if (to) {
      for (const path of drawn.values()) path.setAttribute("tabindex", "-1");
      to.setAttribute("tabindex", "0");
      to.focus();
    }
  });
  return {
    element: svg,
    light(span) {
      for (const [key, path] of drawn) path.classList.toggle("lit", span !== null && key === span.join(" "));
    },
  };
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
