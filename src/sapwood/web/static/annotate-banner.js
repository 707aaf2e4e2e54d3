// What is said above the tree: the server is gone, another window was quicker, an edit was refused.

import { nodesOf, unmatched } from "/static/audit-trees.js";
import { failure, h } from "/static/dom.js";
import { quoteWords } from "/static/given.js";

// An action in words, such as: NP over “the dog”.
export function sayAction(action, view) {
  const over = (start, end) => quoteWords(view.words, { start, end });
  const word = (k) => over(k, k + 1);
  const head = (k) => (k ? word(k - 1) : "the root");
  const says = {
    add: () => `add ${action.label} over ${over(action.start, action.end)}`,
    remove: () => `remove ${action.label} over ${over(action.start, action.end)}`,
    relabel: () => `${action.label} over ${over(action.start, action.end)} becomes ${action.to}`,
    retag: () => `the tag of ${word(action.word)} is ${action.tag}`,
    move: () =>
      `${action.label} ${over(action.start, action.end)} goes to ` +
      `${action.to_label} ${over(action.to_start, action.to_end)}`,
    split: () => `split ${word(action.word)}`,
    join: () => `join ${over(action.word, action.word + 2)}`,
    head: () => `the head of ${word(action.word)} is ${head(action.head)}`,
    relation: () => `the relation of ${word(action.word)} is ${action.relation}`,
    choose: () => `take alternative ${action.alternative}`,
    free: () => "free what was set by hand",
    accept: () => "accept the tree",
    skip: () => "skip the sentence",
    reopen: () => "open the sentence again",
    clear: () => "clear what was set by hand",
    replace: () => "take the tree that was on show",
  };
  return says[action.type]?.() ?? action.type;
}

// isSlow: the server is there, but did not answer in time, as when it reads a model for the first time.
export function lostBanner({ action, isSlow }, view) {
  const kept = action && view ? `Your last edit (${sayAction(action, view)}) is kept and is sent again.` : "";
  const [what, hint] = isSlow
    ? ["The server needs longer than usual. ", "This page asks again by itself."]
    : [
        "The server does not answer. ",
        "This page tries again every second. Is `sapwood serve` still running?",
      ];
  return h(
    "div",
    { class: "notice bad", role: "alert", "data-banner": "lost" },
    h("p", {}, h("b", {}, what), kept),
    h("p", { class: "hint" }, hint),
  );
}

function version(view, other) {
  const isTree = !view.arcs;
  const facts = [view.status, view.window ? null : "not edited yet"].filter(Boolean).join(", ");
  if (!isTree) {
    const lines = (view.arcs ?? []).filter((arc) => {
      const one = (other.arcs ?? []).find((two) => two.word === arc.word);
      return !one || one.head !== arc.head || one.relation !== arc.relation || one.tag !== arc.tag;
    });
    const nameOf = (arc) =>
      `${view.words[arc.word]}: ${arc.relation} of ${arc.head ? view.words[arc.head - 1] : "the root"}, ${arc.tag}`;
    return { facts, lines: lines.map(nameOf) };
  }
  const nodes = nodesOf(view.tree);
  const isOwn = unmatched(nodes, other.tree ? nodesOf(other.tree) : []);
  return {
    facts,
    lines: nodes.filter((_, k) => isOwn[k]).map((node) => `${node.label} ${quoteWords(view.words, node)}`),
    source: view.tree,
  };
}

function versionCard(title, view, other, { edits = [], button, onchoose, name }) {
  const { facts, lines, source } = version(view, other);
  const shown = lines.slice(0, 8);
  return h(
    "section",
    { class: "card", "aria-label": title },
    h("h3", {}, title),
    h("p", { class: "facts" }, facts),
    edits.length
      ? [
          h("p", { class: "small" }, "Your edit"),
          h(
            "ul",
            {},
            edits.map((edit) => h("li", {}, edit)),
          ),
        ]
      : null,
    h("p", { class: "small" }, "Only in this version"),
    shown.length
      ? h(
          "ul",
          { dir: "auto" },
          shown.map((one) => h("li", {}, one)),
        )
      : h("p", { class: "none" }, "nothing"),
    lines.length > shown.length
      ? h("p", { class: "facts" }, `and ${lines.length - shown.length} more`)
      : null,
    source
      ? h(
          "details",
          {},
          h("summary", {}, "The whole tree"),
          h("pre", { class: "source desk-source", dir: "auto" }, source),
        )
      : null,
    h("button", { type: "button", class: "primary", "data-choose": name, onclick: onchoose }, button),
  );
}

// conflict: of the session. hooks: onmine(), ontheirs().
export function conflictBanner({ actions, mine, theirs }, { onmine, ontheirs }) {
  return h(
    "div",
    { class: "notice bad", role: "alert", tabindex: "-1", "data-banner": "conflict" },
    h(
      "p",
      {},
      h("b", {}, "This sentence was changed in another window. "),
      "Nothing is lost: choose which version stays.",
    ),
    h(
      "div",
      { class: "pair" },
      versionCard("Yours", mine, theirs, {
        edits: actions.map((action) => sayAction(action, mine)),
        button: "Keep mine",
        name: "mine",
        onchoose: onmine,
      }),
      versionCard("Theirs", theirs, mine, { button: "Keep theirs", name: "theirs", onchoose: ontheirs }),
    ),
  );
}

// An edit that the server refused; the tree stays as it was.
export function refusal(error, action, view, onclose) {
  const what = action && view ? `This was not done: ${sayAction(action, view)}. ` : "";
  const place = failure({ message: what + error.message, hint: error.hint });
  place.append(h("button", { type: "button", class: "chip", onclick: onclose }, "Close"));
  place.dataset.banner = "refused";
  return place;
}
