// Exports of a drawing: brackets, SVG, PNG, LaTeX, JSON.

import { announce, h } from "/static/dom.js";
import { unstyled } from "/static/tree.js";

const SCALE = 2; // pixels of a PNG for each of the drawing

export async function pngOf(svg) {
  const light = unstyled(svg); // wherever it goes
  const root = new DOMParser().parseFromString(light, "image/svg+xml").documentElement;
  const width = Number(root.getAttribute("width"));
  const height = Number(root.getAttribute("height"));
  const url = URL.createObjectURL(new Blob([light], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = h("canvas", {});
    canvas.width = width * SCALE;
    canvas.height = height * SCALE;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

export function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// takes: () => the report on show. brackets is what the first kind is called and how it is found.
export function exportBar(
  takes,
  { first = "Brackets", firstOf = (report) => report.tree, suffix = "mrg" } = {},
) {
  const kinds = [
    [first, suffix, "text/plain", firstOf],
    ["SVG", "svg", "image/svg+xml", (report) => report.svg],
    ["PNG", "png", "image/png", null],
    ["LaTeX", "tex", "text/plain", (report) => report.latex],
    ["JSON", "json", "application/json", (report) => JSON.stringify(plain(report), null, 2)],
  ];
  const says = h("span", { class: "facts", role: "status" });
  const act = async (kind, isCopy) => {
    const [name, ending, type, make] = kind;
    const report = takes();
    if (!report) return;
    const blob = make ? new Blob([make(report)], { type }) : await pngOf(report.svg);
    if (isCopy) {
      try {
        if (make) await navigator.clipboard.writeText(make(report));
        else await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
        says.textContent = `${name} copied`;
        announce(`${name} copied`);
        return;
      } catch {
        /* not allowed here: a file instead */
      }
    }
    save(`tree.${ending}`, blob);
    says.textContent = `tree.${ending} saved`;
    announce(`tree.${ending} saved`);
  };
  const mode = h(
    "select",
    { "aria-label": "What to do with it" },
    h("option", { value: "copy" }, "Copy as"),
    h("option", { value: "save" }, "Save as"),
  );
  return h(
    "div",
    { class: "chips exports", role: "group", "aria-label": "Take the tree away" },
    mode,
    kinds.map((kind) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "data-export": kind[1],
          onclick: () => act(kind, mode.value === "copy"),
        },
        kind[0],
      ),
    ),
    says,
  );
}

function plain(report) {
  const { svg, latex, ...rest } = report;
  return rest;
}
