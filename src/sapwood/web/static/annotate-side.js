// Beside the tree: alternatives, warnings, why this sentence comes next, what a label looked like before.

import { nodesOf, unmatched } from "/static/audit-trees.js";
import { bars, h, number, percent, plural } from "/static/dom.js";
import { quoteWords } from "/static/given.js";
import { plainContext, plainRule } from "/static/symbols.js";

const MOST_WORDS = 4; // of a hidden state
const MOST_EXAMPLES = 6; // of a label
const MOST_CHANGES = 6; // that an alternative lists

const NO_ALTERNATIVES = {
  accepted: "Accepted as it is on show. Any edit opens it again.",
};

// What an alternative has otherwise than the tree on show: { text, sign, start, end, label }.
function treeChanges(view, tree) {
  const current = view.alternatives[0]?.tree ?? view.tree;
  if (!current || !tree) return [];
  const [mine, theirs] = [nodesOf(current), nodesOf(tree)];
  const pick = (nodes, isOwn, sign) =>
    nodes
      .filter((node, k) => isOwn[k])
      .map(({ label, start, end }) => ({
        sign,
        label,
        start,
        end,
        text: quoteWords(view.words, { start, end }),
      }));
  return [...pick(theirs, unmatched(theirs, mine), "+"), ...pick(mine, unmatched(mine, theirs), "−")].sort(
    (a, b) => a.start - b.start || b.end - a.end || (a.sign === "−" ? -1 : 1),
  );
}

function arcChanges(view, arcs) {
  const current = view.alternatives[0]?.arcs ?? view.arcs ?? [];
  const headOf = (arc) => (arc.head ? view.words[arc.head - 1] : "root");
  return (arcs ?? []).flatMap((arc) => {
    const before = current.find((one) => one.word === arc.word);
    if (before && before.head === arc.head && before.relation === arc.relation && before.tag === arc.tag)
      return [];
    const name = before?.head === arc.head && before.relation === arc.relation ? arc.tag : arc.relation;
    const isTag = name === arc.tag && before?.relation === arc.relation && before.head === arc.head;
    const text = `“${view.words[arc.word]}”${isTag ? "" : ` ← ${headOf(arc)}`}`;
    return [{ sign: "+", label: name, start: arc.word, end: arc.word + 1, text }];
  });
}

export const changesOf = (view, alternative) =>
  view.arcs ? arcChanges(view, alternative.arcs) : treeChanges(view, alternative.tree);

// onchoose(k) of the k-th besides the tree on show, onpoint(changes or null): what to mark in the tree.
export function alternativesCard(view, { onchoose, onpoint }) {
  const item = (alternative, k) => {
    const changes = k ? changesOf(view, alternative) : [];
    const shown = changes.slice(0, MOST_CHANGES);
    const rest = changes.length - shown.length;
    const says = changes.map(
      ({ sign, label, text }) => `${sign === "+" ? "with" : "without"} ${label} ${text}`,
    );
    return h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "desk-alternative",
          "aria-label":
            `${k ? `Alternative ${k}` : "On show"}, ${percent(alternative.probability)}` +
            (says.length ? `: ${says.join("; ")}` : ""),
          "aria-pressed": String(k === 0),
          "data-alternative": k,
          onclick: () => k && onchoose(k),
          onpointerenter: () => onpoint(changes),
          onpointerleave: () => onpoint(null),
          onfocus: () => onpoint(changes),
          onblur: () => onpoint(null),
        },
        h(
          "span",
          { class: "desk-row" },
          k ? h("kbd", {}, String(k)) : null,
          h("b", {}, percent(alternative.probability)),
          k ? null : h("small", {}, "on show"),
        ),
        h("span", { class: "track", "aria-hidden": "true" }, gauge(alternative.probability)),
        shown.map(({ sign, label, text }) =>
          h(
            "span",
            { class: "desk-change" },
            h("span", { class: sign === "+" ? "plus" : "minus" }, `${sign} ${label}`),
            " ",
            h("span", { dir: "auto" }, text),
          ),
        ),
        rest > 0 ? h("small", {}, `and ${rest} more`) : null,
      ),
    );
  };
  const { alternatives } = view;
  return h(
    "section",
    { class: "card", "aria-label": "Alternatives" },
    h("h2", {}, "Best trees"),
    alternatives.length
      ? h("ol", { class: "desk-alternatives" }, alternatives.map(item))
      : h("p", { class: "none" }, NO_ALTERNATIVES[view.status] ?? "No model yet, and so no alternatives."),
  );
}

const gauge = (p) => h("i", { style: { width: `${100 * Math.max(0, Math.min(1, p ?? 0))}%` } });

// ongo(id): to the sentence of an example.
export function warningsCard(view, { ongo }) {
  if (!view.warnings?.length) return null;
  return h(
    "section",
    { class: "card desk-warnings", "aria-label": "Warnings" },
    h("h2", {}, "Annotated otherwise before"),
    h(
      "ul",
      { class: "examples" },
      view.warnings.map((warning) =>
        h(
          "li",
          {},
          h("p", {}, warning.text),
          (warning.examples ?? []).map((example) =>
            h(
              "button",
              { type: "button", class: "link desk-example", onclick: () => ongo(example.id) },
              h("b", {}, example.label ?? ""),
              h("span", { dir: "auto" }, ` ${example.text}`),
            ),
          ),
        ),
      ),
    ),
  );
}

const ORDERS = {
  document: "The next one in the order of the document.",
  random: "Drawn at random.",
};

export function whyCard(why, order) {
  const parts = why?.parts ?? [];
  const text = ORDERS[why?.order ?? order];
  return h(
    "section",
    { class: "card", "aria-label": "Why this sentence" },
    h("h2", {}, "Why this sentence"),
    text && !parts.length ? h("p", { class: "desk-plain" }, why ? text : "You went to it.") : null,
    !text && !parts.length ? h("p", { class: "desk-plain" }, "You went to it.") : null,
    parts.length
      ? h(
          "ul",
          { class: "desk-why" },
          parts.map((part) => h("li", {}, part.text ?? `${part.name}: ${number(part.value, 2)}`)),
        )
      : null,
  );
}

function exampleLine({ text, start, end, id }, ongo) {
  const words = text.split(" ");
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "desk-quote", dir: "auto", onclick: () => ongo(id) },
      start > 0 ? `${words.slice(Math.max(0, start - 4), start).join(" ")} ` : "",
      h("mark", {}, words.slice(start, end).join(" ")),
      end < words.length ? ` ${words.slice(end, end + 3).join(" ")}` : "",
    ),
  );
}

// guideline: the answer of the server for a label; null where nothing is chosen.
export function guidelineParts(guideline, { ongo }) {
  if (!guideline)
    return [h("p", { class: "none" }, "Choose a label in the tree to see what it looked like before.")];
  const { label, n, examples = [], states = [] } = guideline;
  const saysOf = ({ words, contexts }) =>
    [...words.map(plainRule), ...contexts.map(plainContext)].slice(0, MOST_WORDS);
  return [
    h(
      "p",
      { class: "facts" },
      h("b", {}, label),
      ` ${plural(n ?? examples.length, "time")} in the accepted trees`,
    ),
    examples.length
      ? h(
          "ul",
          { class: "examples" },
          examples.slice(0, MOST_EXAMPLES).map((example) => exampleLine(example, ongo)),
        )
      : h("p", { class: "none" }, "Not in any accepted tree yet."),
    states.length
      ? [
          h("p", { class: "small" }, "Its hidden states, and what each stands for"),
          bars(
            states.map((state) => [saysOf(state).join(" · "), state.share]),
            { most: 1 },
          ),
        ]
      : null,
  ];
}
