// Elements, and functions that several views use.

const SVG = "http://www.w3.org/2000/svg";

const isThere = (child) => child !== null && child !== undefined && child !== false;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style")
      for (const [key, to] of Object.entries(value)) element.style.setProperty(key, to);
    else if (name in element && !(element instanceof SVGElement) && typeof value !== "string")
      element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(isThere));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Replaces the contents of an element; lists are spread, and null is left out.
export const put = (place, ...children) => place.replaceChildren(...children.flat(Infinity).filter(isThere));

export function announce(text) {
  const place = document.getElementById("announce");
  place.textContent = "";
  requestAnimationFrame(() => {
    place.textContent = text;
  });
}

export const percent = (p) =>
  p === null || p === undefined
    ? "–"
    : p >= 0.9995
      ? "100 %"
      : p < 0.001
        ? "< 0.1 %"
        : `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`;
// For probabilities that may be far below a tenth of a per cent.
export const tinyPercent = (p) =>
  p > 0 && p < 0.001 ? p.toExponential(1).replace("-", "−") : p === 0 ? "0" : percent(p);
export const number = (x, digits = 2) =>
  x === null || x === undefined
    ? "–"
    : x
        .toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
        .replace("-", "−");
export const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// A row of name, bar and number for each pair.
export function bars(rows, { most = null, format = percent } = {}) {
  const top = most ?? Math.max(...rows.map((row) => row[1]), 1e-9);
  return h(
    "div",
    { class: "rows" },
    rows.map(([name, value, link]) => [
      h("span", {}, link ?? name),
      h(
        "span",
        { class: "track", "aria-hidden": "true" },
        h("i", { style: { width: `${Math.max(0, Math.min(100, (100 * value) / top))}%` } }),
      ),
      h("span", { class: "number" }, format(value)),
    ]),
  );
}

export function field(label, control, { grow = false } = {}) {
  return h("label", { class: grow ? "field grow" : "field" }, h("span", {}, label), control);
}

export function choose(options, value, onchange, attributes = {}) {
  const select = h(
    "select",
    { ...attributes, onchange: () => onchange(select.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)),
  );
  return select;
}

// A select box of the names of models.
export const modelPicker = (models, chosen, onchange) =>
  choose(
    models.map((model) => [model.name, model.name]),
    chosen.name,
    onchange,
  );

export function failure(error) {
  const place = error.line ? `Line ${error.line}${error.column ? `, column ${error.column}` : ""}: ` : "";
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("p", {}, place + error.message),
    error.hint ? h("p", { class: "hint" }, error.hint) : null,
  );
}

export const busy = (text) =>
  h("p", { class: "facts" }, h("span", { class: "spin", "aria-hidden": "true" }), text);

// Runs the newest task only: while one runs, only the last of the tasks that arrive is kept.
export function latest(work) {
  let isRunning = false;
  let waiting = null;
  return async function run(...wish) {
    if (isRunning) {
      waiting = wish;
      return;
    }
    isRunning = true;
    try {
      await work(...wish);
    } finally {
      isRunning = false;
      if (waiting) {
        const next = waiting;
        waiting = null;
        run(...next);
      }
    }
  };
}

const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
export const isRightToLeft = (words) => RIGHT_TO_LEFT.test(words.join(" "));
