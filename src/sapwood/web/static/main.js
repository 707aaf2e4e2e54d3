// Views by address: the path names the view, the part behind # holds its state, which the server never sees.

import { get } from "/static/api.js";
import { failure, h, put } from "/static/dom.js";

const TITLES = {
  parse: "Parse",
  states: "States",
  compare: "Compare",
  train: "Train",
  audit: "Audit",
  identify: "Identify",
  annotate: "Annotate",
  text: "Language model",
};
const main = document.getElementById("main");
let leave = null;
let shown = 0;
let hasProject = null; // whether the server was started with one; null until the server has answered

const viewOf = () => {
  const name = location.pathname.slice(1);
  return name in TITLES ? name : hasProject ? "annotate" : "parse";
};
const stateOf = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

export function addressOf(view, state) {
  const filled = Object.entries(state).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const hash = new URLSearchParams(filled.map(([key, value]) => [key, String(value)])).toString();
  return `/${view}${location.search}${hash ? `#${hash}` : ""}`;
}

export function go(view, state = {}) {
  history.pushState(null, "", addressOf(view, state));
  show(true);
}

// A link into a view, for the mouse, the keyboard and the other button alike.
export const linkTo = (view, state, ...children) => h("a", { href: addressOf(view, state) }, ...children);

const more = document.querySelector("nav .more");

// The menu is closed once something was chosen in it, and marked where the view on show is one of its own.
function showMenu(view) {
  more.open = false;
  const isInside = more.querySelector(`[data-view="${view}"]`) !== null;
  more.querySelector("summary").classList.toggle("current", isInside);
}

// What the server has: its models, and whether a project.
async function ask() {
  const known = await get("models");
  hasProject = Boolean(known.has_project);
  document.querySelector('nav [data-view="annotate"]').hidden = !hasProject;
  return known;
}

async function show(isMove = false) {
  const turn = ++shown;
  const asked = ask();
  if (hasProject === null && !(location.pathname.slice(1) in TITLES)) await asked.catch(() => {});
  if (turn !== shown) return;
  const view = viewOf();
  document.title = `${TITLES[view]} · Sapwood`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.href = `/${link.dataset.view}${location.search}`;
  }
  showMenu(view);
  try {
    const [{ mount }, known] = await Promise.all([import(`/static/${view}.js`), asked]);
    if (turn !== shown) return;
    leave?.();
    leave = null;
    document.getElementById("version").textContent = `Sapwood ${known.version}`;
    const root = h("div", {});
    const state = stateOf();
    const set = (change) => {
      Object.assign(state, change);
      if (turn === shown) history.replaceState(null, "", addressOf(view, state));
    };
    put(main, root);
    leave =
      mount(root, { state, set, models: known.models, limits: known.limits, methods: known.methods }) ?? null;
    if (isMove) main.focus({ preventScroll: true });
  } catch (error) {
    if (turn === shown) put(main, failure(error));
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !more.open) return;
  more.open = false;
  more.querySelector("summary").focus();
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".more")) more.open = false;
  const link = event.target.closest("a[href]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || link.hasAttribute("download") || !(to.pathname.slice(1) in TITLES))
    return;
  event.preventDefault();
  history.pushState(null, "", to.pathname + location.search + to.hash);
  show(true);
});
addEventListener("popstate", () => show());
addEventListener("hashchange", () => show());
show();
