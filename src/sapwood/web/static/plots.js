// Small plots: a curve, and columns.

import { number, s } from "/static/dom.js";

export function curve(points, { title, digits = 0, height = 190 }) {
  const width = 520;
  const left = 74;
  const bottom = 28;
  const top = 14;
  const right = 12;
  const xs = points.map((point) => point[0]);
  const ys = points.map((point) => point[1]);
  const x0 = Math.min(...xs);
  const x1 = Math.max(...xs, x0 + 1);
  const y0 = Math.min(...ys);
  const y1 = Math.max(...ys, y0 + 1e-9);
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - right);
  const y = (value) => height - bottom - ((value - y0) / (y1 - y0)) * (height - bottom - top);
  const last = points.at(-1);
  return s(
    "svg",
    {
      class: "plot",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}: ${number(ys[0], digits)} to ${number(last[1], digits)} over ${points.length} points`,
    },
    s("title", {}, title),
    [y0, (y0 + y1) / 2, y1].map((value) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      s("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value, digits)),
    ]),
    s("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    s("text", { x: left, y: height - 9 }, String(x0)),
    s("text", { x: width - right, y: height - 9, "text-anchor": "end" }, String(x1)),
    s("path", {
      class: "curve",
      d: points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join(""),
    }),
    s("circle", { class: "dot", cx: x(last[0]), cy: y(last[1]), r: 3.5 }),
  );
}

// kept: how many of the columns count.
export function columns(values, { title, kept = values.length }) {
  const width = 520;
  const height = 130;
  const left = 44;
  const bottom = 22;
  const top = 10;
  const most = Math.max(...values, 1e-9);
  const step = (width - left - 8) / values.length;
  return s(
    "svg",
    {
      class: "plot",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}: ${values
        .slice(0, 8)
        .map((value) => number(value, 3))
        .join(", ")}`,
    },
    s("title", {}, title),
    [0, most].map((value) =>
      s(
        "text",
        {
          x: left - 6,
          y: height - bottom - (value / most) * (height - bottom - top) + 4,
          "text-anchor": "end",
        },
        number(value, 2),
      ),
    ),
    values.map((value, k) =>
      s(
        "rect",
        {
          class: k < kept ? "column" : "column off",
          x: left + k * step + 1,
          width: Math.max(step - 2, 1),
          y: height - bottom - (value / most) * (height - bottom - top),
          height: Math.max((value / most) * (height - bottom - top), 0.5),
          rx: 1.5,
        },
        s("title", {}, `${k + 1}: ${number(value, 4)}`),
      ),
    ),
    s("line", { class: "axis", x1: left, x2: width - 8, y1: height - bottom, y2: height - bottom }),
    s("text", { x: left, y: height - 6 }, "1"),
    s("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, String(values.length)),
  );
}
