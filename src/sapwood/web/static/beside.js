// The arcs of a dependency model, beside the tree of another model of the same language.

import { ask } from "/static/api.js";
import { arcsFigure, arcsOutline, wordParts } from "/static/dependencies.js";
import { h, put } from "/static/dom.js";
import { linkTo } from "/static/main.js";
import { SMALL, zoomFrame } from "/static/zoom.js";

// A card with `element`, `hide()`, and `show(view, report)` for the tree that the view shows.
export function besideCard() {
  const outline = h("div", {});
  const frame = zoomFrame((scale) => {
    const list = outline.querySelector("details");
    if (list && scale > 0 && scale < SMALL) list.open = true; // letters are too small to read
  });
  const about = h("p", { class: "small" });
  const element = h(
    "section",
    { class: "card", "aria-label": "Dependencies", hidden: true },
    h("header", {}, h("h2", {}, "Dependencies"), frame.controls),
    about,
    frame.place,
    outline,
  );
  const hide = () => {
    element.hidden = true;
    put(frame.place);
  };

  async function show(view, report) {
    const model = view.models.find(({ name }) => name === view.model.beside);
    const sentence = view.typed.items[view.typed.index];
    if (!model) {
      hide();
      return;
    }
    try {
      const found = await ask("depend", { sentence, model: model.name });
      if (report !== view.shown) return;
      element.hidden = false;
      put(
        about,
        `By ${model.name}. `,
        linkTo("parse", { model: model.name, s: sentence }, "Its other trees"),
      );
      put(outline, arcsOutline(found));
      frame.show(figureOf(view, found));
    } catch {
      if (report === view.shown) hide(); // the tree stays, without arcs
    }
  }
  return { element, show, hide };
}

// The arcs; the panel describes the word under the pointer.
function figureOf(view, report) {
  const onshow = (k) => view.showParts(wordParts(report, k));
  const figure = arcsFigure(report, {
    onshow,
    onchoose: (k) => {
      onshow(k);
      view.page.panel.open(figure.wordAt(k));
    },
  });
  return figure.element;
}
