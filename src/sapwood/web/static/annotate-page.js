// The elements of the annotation desk.

import { announce, choose, h, put } from "/static/dom.js";

const ORDERS = {
  document: "order of the document",
  random: "random",
  learn: "most to learn first",
};
const FOLDS = [
  ["0", "whole"],
  ["2", "2 levels"],
  ["3", "3 levels"],
  ["4", "4 levels"],
  ["6", "6 levels"],
];
const HINT = {
  trees: "Drag over words to add a phrase; click a label to change it. Press ? for the keys.",
  dependencies: "Drag a word onto its head; click an arc to name it. Press ? for the keys.",
};
const EXPORTS = {
  trees: [{ name: "brackets", title: "Penn brackets" }],
  dependencies: [{ name: "conllu", title: "CoNLL-U" }],
};

const button = (name, onclick, key, attributes = {}) =>
  h(
    "button",
    { type: "button", "data-do": name, onclick, ...attributes },
    name,
    key ? [" ", h("kbd", {}, key)] : null,
  );

// A menu that opens below its button.
function menu(title, items) {
  const element = h(
    "details",
    { class: "desk-menu" },
    h("summary", { class: "button" }, title),
    h("div", { class: "menu" }, items),
  );
  element.addEventListener("focusout", (event) => {
    if (!element.contains(event.relatedTarget)) element.open = false;
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    element.open = false;
    element.querySelector("summary").focus();
  });
  return element;
}

const exportItems = (project) =>
  (project.formats ?? EXPORTS[project.kind]).map(({ name, title, suffix }) =>
    h(
      "a",
      {
        href: `/api/project/export?format=${encodeURIComponent(name)}`,
        download: `${project.folder_name ?? "trees"}.${suffix ?? name}`,
        onclick: () => announce(`${title} saved`),
      },
      title,
    ),
  );

// Returns the places that the desk fills, and the functions that show a sentence, a selection and a project.
export function deskPage(root, desk) {
  const { project, session, editor } = desk;
  const isTrees = project.kind === "trees";
  const place = () => h("div", { class: "desk-place" });
  const page = {
    banner: place(),
    lost: place(),
    says: h("p", { class: "desk-says", role: "status" }),
    alternatives: place(),
    warnings: place(),
    why: place(),
    guideline: place(),
    title: h("h1", {}),
    number: h("h2", { tabindex: "-1" }),
    status: h("span", { class: "desk-status" }),
    facts: h("span", { class: "facts" }),
    commands: h("div", {
      class: "chips desk-commands",
      role: "toolbar",
      "aria-label": "What to do with the selection",
    }),
    undo: button("Undo", () => session.turnBack("undo"), "u", { class: "chip" }),
    redo: button("Redo", () => session.turnBack("redo"), null, { class: "chip" }),
    previous: button("Previous", () => session.previous(), "p"),
    accept: button("Accept", () => desk.accept(), "Enter", { class: "primary" }),
  };
  page.fold = isTrees
    ? choose(FOLDS, "0", (value) => editor.foldBelow(Number(value)), {
        "aria-label": "Levels of the tree on show",
      })
    : null;
  const orders = (project.orders ?? ["document", "random"]).map((one) =>
    Array.isArray(one) ? one : typeof one === "string" ? [one, ORDERS[one] ?? one] : [one.name, one.title],
  );
  page.order = choose(orders, project.order, (order) => desk.setting({ order }), {
    "aria-label": "Order of the sentences",
  });
  root.classList.add("desk");
  put(
    root,
    header(page, desk),
    page.lost,
    page.banner,
    h(
      "div",
      { class: "split desk-split" },
      h("div", { class: "desk-main" }, workCard(page, desk), restCards(page, desk)),
      sideCards(page),
    ),
  );
  root.append(desk.help, desk.list.element, desk.importing);
  return Object.assign(page, showing(page, desk));
}

function header(page, desk) {
  const { project } = desk;
  return h(
    "div",
    { class: "bar desk-bar" },
    page.title,
    h("label", { class: "check", hidden: page.order.options.length < 2 }, "Order", page.order),
    h(
      "div",
      { class: "chips" },
      button("Sentences", () => desk.openList(), "g", { class: "chip" }),
      button("Import", () => desk.importing.showModal(), null, { class: "chip" }),
      menu("Export", exportItems(project)),
      button("Keys", () => desk.help.showModal(), "?", { class: "chip" }),
    ),
  );
}

function workCard(page, desk) {
  const { session, editor, box } = desk;
  return h(
    "section",
    { class: "card desk-work", "aria-label": "Sentence" },
    h(
      "header",
      {},
      h("div", { class: "chips" }, page.number, page.status, page.facts),
      h("div", { class: "chips" }, page.undo, page.redo, page.fold, editor.frame.controls),
    ),
    editor.element,
    h("div", { class: "desk-under" }, page.commands, box.element, page.says),
    h(
      "div",
      { class: "desk-go" },
      page.previous,
      button("Next", () => session.next(), "n"),
      button("Skip", () => desk.act({ type: "skip" }), "x"),
      page.accept,
    ),
  );
}

// What lies below the tree, and on narrow screens at the end.
function restCards(page, desk) {
  return h("div", { class: "desk-rest" }, page.why, desk.progress.element);
}

function sideCards(page) {
  return h(
    "div",
    { class: "desk-side" },
    page.alternatives,
    page.warnings,
    h("section", { class: "card", "aria-label": "Guideline" }, h("h2", {}, "Earlier trees"), page.guideline),
  );
}

// What can be done with the whole sentence.
function wholeButtons(desk) {
  const { view } = desk.session;
  if (!view) return null;
  const isDone = view.status === "accepted" || view.status === "skipped";
  const isGiven = [...view.nodes, ...(view.arcs ?? [])].some((one) => one.is_given);
  const chip = (name, type) => button(name, () => desk.act({ type }), null, { class: "chip" });
  return [
    isDone ? chip("Open again", "reopen") : null,
    isGiven || isDone ? chip("Start over", "clear") : null,
  ];
}

function showing(page, desk) {
  const { project, editor, commands } = desk;
  return {
    showView(view) {
      page.number.textContent = `Sentence ${view.number.toLocaleString("en")}`;
      page.status.textContent = view.status;
      page.status.className = `desk-status ${view.status}`;
      page.facts.textContent = view.is_fallback
        ? "The model has no tree of these words: a makeshift stands in."
        : "";
      if (page.fold && !editor.folds.size) page.fold.value = "0";
      page.accept.disabled = false;
    },
    showSelection(selection) {
      const buttons = selection ? commands.buttons(selection) : [];
      put(
        page.commands,
        selection
          ? [h("span", { class: "quote", dir: "auto" }, editor.nameOf(selection)), buttons]
          : [h("span", { class: "facts" }, HINT[project.kind]), wholeButtons(desk)],
      );
    },
    showProject(summary) {
      page.title.textContent = summary.title;
      for (const name of ["undo", "redo"]) {
        const { can, label } = summary[name] ?? {};
        page[name].disabled = !can;
        page[name].title = can && label ? label : "";
      }
      page.order.value = summary.order;
    },
    showEmpty() {
      const isNone = project.counts.sentences === 0;
      put(
        editor.element,
        h(
          "p",
          { class: "none" },
          isNone ? "No sentence is here yet: import some." : "Every sentence is accepted or skipped.",
        ),
      );
      page.accept.disabled = true;
    },
  };
}
