// The elements of the view Parse, how they are arranged, and its sentences on a model or a tree.

import { chartScale } from "/static/chart.js";
import { ConstraintEditor } from "/static/constraints.js";
import { besideCard } from "/static/beside.js";
import { choose, field, h, modelPicker, number, percent, plural, put } from "/static/dom.js";
import { exportBar } from "/static/exports.js";
import { sidePanel } from "/static/panel.js";
import { scoreTerm, term } from "/static/terms.js";
import { SMALL, zoomFrame } from "/static/zoom.js";

// Sentences that are worth pointing at: what a phrase is attached to, and words that mislead at first.
const ENGLISH = [
  "The girl saw the boy with the telescope.",
  "He bought a book about the history of the city in Paris.",
  "Police found the suspect with a knife.",
  "While the man hunted the deer ran into the woods.",
  "The horse raced past the barn fell.",
];
// Words of the hand-written grammar, which models of the bundled trees know alone.
const BUNDLED = [
  "the woman saw a dog in the garden .",
  "they hope that she slept .",
  "my children loved big balls that were in a bag .",
];
const examplesOf = (model) => (model.name.startsWith("bundled") ? BUNDLED : ENGLISH);
const DECODERS = [
  ["f1", "best expected F1"],
  ["max-rule", "best product of rules"],
  ["goodman", "most expected constituents"],
  ["viterbi", "likeliest derivation"],
];

// Puts the elements into the root of the view, and returns those that the view fills or listens to.
export function buildParsePage(view) {
  const controls = buildControls(view);
  const results = buildResults(view);
  const { picker, decoderField, about, lead, input, sentences, readAs, problem, facts } = controls;
  view.root.append(
    h("h1", {}, "Parse"),
    lead,
    h("div", { class: "bar" }, field("Model", picker), decoderField, h("span", { class: "facts" }, about)),
    input,
    h("div", { class: "bar" }, controls.examples, sentences),
    readAs,
    problem,
    facts,
    results.split,
  );
  return { ...controls, ...results };
}

function buildControls(view) {
  const input = h("textarea", {
    rows: 2,
    dir: "auto",
    spellcheck: false,
    "aria-label": "Sentences, or a tree in brackets",
    placeholder: "Type or paste sentences, or a tree in brackets",
  });
  input.value = view.state.s ?? examplesOf(view.model)[0];
  const decoder = choose(DECODERS, view.decoder, (value) =>
    view.change({ decoder: value === "f1" ? null : value }),
  );
  return {
    input,
    picker: modelPicker(view.models, view.model, (name) => view.chooseModel(name)),
    decoderField: field("Decoder", decoder),
    examples: h("div", { class: "chips", role: "group", "aria-label": "Examples" }),
    lead: h("p", { class: "lead" }),
    about: h("span", {}),
    sampleButton: h(
      "button",
      { type: "button", class: "chip", onclick: () => view.typeRandomSentence() },
      "Draw one at random",
    ),
    sentences: h("div", { class: "chips", role: "group", "aria-label": "Sentences" }),
    readAs: h("div", {}), // how the typed text is read: as sentences, lines or trees
    problem: h("div", {}),
    facts: h("p", { class: "facts", role: "status" }),
  };
}

function buildResults(view) {
  const slider = h("input", {
    type: "range",
    min: "1",
    max: "1",
    value: "1",
    "aria-label": "Which of the best trees",
  });
  const sliderText = h("span", { class: "facts" });
  const outline = h("div", {});
  const frame = zoomFrame((scale) => {
    // The outline opens where letters become too small to read.
    const list = outline.querySelector("details");
    if (list && !list.dataset.touched) list.open = scale < SMALL;
  });
  const treeExports = exportBar(() => view.shown);
  const arcExports = exportBar(() => view.shown, {
    first: "CoNLL-U",
    firstOf: (report) => `${report.conllu}\n`,
    suffix: "conllu",
  });
  const exportsPlace = h("div", {}, treeExports);
  const editor = new ConstraintEditor(view, frame.place);
  const panel = sidePanel("Constituent", () => view.chooseNode(null));
  const surprisal = h("div", {});
  const treeCard = h(
    "section",
    { class: "card", "aria-label": "Tree" },
    h("header", {}, h("div", { class: "chips" }, slider, sliderText, frame.controls), exportsPlace),
    editor.element,
    frame.place,
    outline,
    surprisal,
  );
  const beside = besideCard();
  const membersCard = h("section", { class: "card", "aria-label": "Members", hidden: true });
  const triangle = h("div", { class: "figure fit" });
  const chartCard = h(
    "section",
    { class: "card", "aria-label": "Chart" },
    h("header", {}, h("h2", {}, "Chart"), chartScale()),
    triangle,
  );
  const stack = h("div", { class: "stack" }, treeCard, beside.element, membersCard, chartCard);
  const split = h("div", { class: "split" }, stack, panel.element);
  const cards = { split, membersCard, chartCard, triangle, panel, editor, surprisal, beside };
  return { ...cards, slider, sliderText, outline, frame, treeExports, arcExports, exportsPlace };
}

const FALLBACKS = {
  joined:
    "No parse: the grammar cannot build this sentence as a whole. Shown are its best pieces, side by side.",
  asked:
    "No parse: no tree of the model has all that you ask for. Shown is what you ask for, and what goes with it.",
  flat: "Too long to chart: each word has its likeliest tag, and nothing above.",
};
const IMPOSSIBLE = "The model cannot build this tree: its probability is 0. It is drawn as it is.";

const notice = (...parts) => h("div", { class: "notice", role: "status" }, h("p", {}, ...parts));

// What is unusual about a tree, or null.
export function fallbackNotice(report, isAsked) {
  if (report.kind === "given" && report.log_prob === null) return notice(IMPOSSIBLE);
  const text = FALLBACKS[report.kind === "joined" && isAsked ? "asked" : report.kind];
  return text ? notice(text) : null;
}

// Says how a tree in brackets is read, and offers the other reading.
export function bracketsNotice({ isArcs, state }, onclick) {
  if (isArcs) return notice("A tree in brackets: its words are parsed.");
  const link = (text) => h("button", { type: "button", class: "link", onclick }, text);
  return state.words
    ? notice("A tree in brackets: its words are parsed. ", link("Draw the tree as it was given"))
    : notice("A tree in brackets: it is drawn as it was given. ", link("Parse its words instead"));
}

// What the page says of its model, and examples for it, each a button that types it.
export function showModel(view) {
  const { model, page } = view;
  const { lead, about, examples, sampleButton, decoderField } = page;
  const example = (text) =>
    h("button", { type: "button", class: "chip", onclick: () => view.typeText(text) }, text);
  lead.textContent = leadOf(model);
  about.textContent = model.about;
  put(examples, ...examplesOf(model).map(example), sampleButton);
  sampleButton.hidden = !model.can_sample;
  decoderField.hidden = view.isArcs;
}

// The sentence under the title: what a user can see depends on the kind of the model.
function leadOf(model) {
  if (model.kind === "arcs")
    return "Point at a word to see its head, how sure the model is of it, and which other heads are likely.";
  const start = "Point at a constituent to see how sure the model is of it";
  if (model.n_members > 1)
    return `${start}, what each of the ${model.n_members} members of this mix thinks, and its hidden states.`;
  if (["pcfg", "crf", "encoder", "network"].includes(model.method))
    return `${start}, and what else it might be.`;
  if (model.method === "spectral")
    return `${start}, what else it might be, and what its hidden directions mean.`;
  return `${start}, which hidden states it is in, and what they mean.`;
}

// What the panel shows while nothing is pointed at.
export function emptyPart(isArcs) {
  const [title, text] = isArcs
    ? ["Word", "Point at a word to see its head, and the rivals of its head."]
    : ["Constituent", "Point at a label, or walk the tree with the arrow keys."];
  return h("div", {}, h("h2", {}, title), h("p", { class: "none" }, text));
}

const fact = (name, value) => h("span", {}, name, " ", h("b", {}, value));

// best: the entry of the tree in the list of the best, if it is in the list.
export function treeFacts(report, best, decoder) {
  const hasPosterior = report.posterior !== undefined && report.posterior !== null;
  return [
    h("span", {}, plural(report.words.length, "word")),
    fact(term("log P(tree)"), number(report.log_prob)),
    fact(term("log P(sentence)"), number(report.sentence_log_prob)),
    hasPosterior ? fact(term("P(tree | sentence)"), percent(report.posterior)) : null,
    best ? fact(scoreTerm(decoder), number(best.score, 3)) : null,
  ];
}

export function arcFacts(report, best) {
  return [
    h("span", {}, plural(report.words.length, "word")),
    best ? fact(scoreTerm("arcs"), number(best.score, 3)) : null,
  ];
}
