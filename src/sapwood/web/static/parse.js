// Parse: sentences in, trees out; what a constituent is, how sure the model is, and what else it might have been.

import { ask } from "/static/api.js";
import { chartFigure, chartScale } from "/static/chart.js";
import {
  headPart,
  memberPart,
  membersTable,
  otherCell,
  posteriorPart,
  statesPart,
} from "/static/constituent.js";
import { arcsFigure, arcsOutline, wordParts } from "/static/dependencies.js";
import {
  announce,
  busy,
  choose,
  failure,
  field,
  h,
  isRightToLeft,
  latest,
  number,
  percent,
  plural,
  put,
} from "/static/dom.js";
import { exportBar } from "/static/exports.js";
import { sidePanel } from "/static/panel.js";
import { scoreTerm, term } from "/static/terms.js";
import { outlineOf, treeFigure } from "/static/tree.js";
import { itemChips, readTyped, splitNotice, wordsOf } from "/static/typed.js";
import { SMALL, zoomFrame } from "/static/zoom.js";

const EXAMPLES = [
  "the woman saw a dog in the garden .",
  "they hope that she slept .",
  "my children loved big balls that were in a bag .",
];
const K = 10;
const READABLE = 0.8; // scale down to which a tree may shrink before it takes the whole width of the page
const PANEL = 380; // pixels of the panel and the gaps beside a tree
const DECODERS = [
  ["f1", "best expected F1"],
  ["max-rule", "best product of rules"],
  ["goodman", "most expected constituents"],
  ["viterbi", "likeliest derivation"],
];
const FALLBACKS = {
  joined:
    "No parse: the grammar cannot build this sentence as a whole. Shown are its best pieces, side by side.",
  flat: "Too long to chart: each word has its likeliest tag, and nothing above.",
};
const PLACEHOLDER = "Type or paste sentences, or a tree in brackets";

// What can be seen depends on the kind of the model.
export function leadOf(model) {
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

const notice = (...parts) => h("div", { class: "notice", role: "status" }, h("p", {}, ...parts));

export function mount(root, { state, set, models, limits }) {
  const usable = models.filter((model) => model.kind === "trees" || model.kind === "arcs");
  if (!usable.length) {
    root.append(
      failure({ message: "No model here parses.", hint: "Start the server with one: sapwood serve MODEL" }),
    );
    return undefined;
  }
  let known = usable.find((model) => model.name === state.model) ?? usable[0];
  let typed = { items: [] };
  let place = 0; // of the item on show
  let whole = null; // the report on the item
  let shown = null; // the report on the tree on show, which may be one of the list
  let figure = null;
  let chart = null;
  let chosen = null; // number of the node that stays in the panel
  let voices = null; // what the members of a mix say
  let turn = 0; // of the panel
  const rank = () => Math.max(1, Number(state.tree) || 1);
  const isArcs = () => known.kind === "arcs";

  // -- the page --

  const input = h("textarea", {
    rows: 2,
    dir: "auto",
    spellcheck: false,
    "aria-label": "Sentences, or a tree in brackets",
    placeholder: PLACEHOLDER,
  });
  input.value = state.s ?? EXAMPLES[0];
  const picker = choose(
    usable.map((one) => [one.name, one.name]),
    known.name,
    (name) => {
      known = usable.find((one) => one.name === name);
      set({ model: name, tree: null, node: null });
      showModel();
      draw();
    },
  );
  const decoder = choose(DECODERS, state.decoder ?? "f1", (value) => {
    set({ decoder: value === "f1" ? null : value, tree: null });
    draw();
  });
  const decoderField = field("Decoder", decoder);
  const lead = h("p", { class: "lead" });
  const about = h("span", {});
  const facts = h("p", { class: "facts", role: "status" });
  const says = h("div", {});
  const readAs = h("div", {}); // how what was typed is taken
  const sentences = h("div", { class: "chips", role: "group", "aria-label": "Sentences" });
  const slider = h("input", {
    type: "range",
    min: "1",
    max: "1",
    value: "1",
    "aria-label": "Which of the best trees",
  });
  const sliderText = h("span", { class: "facts" });
  const frame = zoomFrame((scale) => {
    // where letters become too small, the outline can be read
    const list = outline.querySelector("details");
    if (list && !list.dataset.touched) list.open = scale < SMALL;
  });
  const outline = h("div", {});
  const triangle = h("div", { class: "figure fit" });
  const chartCard = h(
    "section",
    { class: "card", "aria-label": "Chart" },
    h("header", {}, h("h2", {}, "Chart"), chartScale()),
    triangle,
  );
  const membersCard = h("section", { class: "card", "aria-label": "Members", hidden: true });
  const panel = sidePanel("Constituent", () => choosing(null));
  const treeExports = exportBar(() => shown);
  const arcExports = exportBar(() => shown, {
    first: "CoNLL-U",
    firstOf: (report) => `${report.conllu}\n`,
    suffix: "conllu",
  });
  const exportsPlace = h("div", {}, treeExports);
  const drawLots = h("button", { type: "button", class: "chip", onclick: surprise }, "Draw one at random");
  const example = (text) => h("button", { type: "button", class: "chip", onclick: () => type(text) }, text);
  const split = h(
    "div",
    { class: "split" },
    h(
      "div",
      { class: "stack" },
      h(
        "section",
        { class: "card", "aria-label": "Tree" },
        h("header", {}, h("div", { class: "chips" }, slider, sliderText, frame.controls), exportsPlace),
        frame.place,
        outline,
      ),
      membersCard,
      chartCard,
    ),
    panel.element,
  );
  root.append(
    h("h1", {}, "Parse"),
    lead,
    h("div", { class: "bar" }, field("Model", picker), decoderField, h("span", { class: "facts" }, about)),
    input,
    h(
      "div",
      { class: "bar" },
      h("div", { class: "chips", role: "group", "aria-label": "Examples" }, EXAMPLES.map(example), drawLots),
      sentences,
    ),
    readAs,
    says,
    facts,
    split,
  );

  function showModel() {
    lead.textContent = leadOf(known);
    about.textContent = known.about;
    drawLots.hidden = !known.can_sample;
    decoderField.hidden = isArcs();
  }

  // -- what was typed --

  function read() {
    const byLine = Boolean(state.lines);
    typed = readTyped(input.value, { byLine });
    place = Math.min(Number(state.line ?? 0) || 0, Math.max(typed.items.length - 1, 0));
    const pick = (k) => {
      set({ line: k || null, tree: null, node: null });
      draw();
    };
    put(sentences, ...itemChips(typed, place, pick));
    const reread = (lines) => {
      set({ lines: lines ? 1 : null, line: null, tree: null, node: null });
      draw();
    };
    put(readAs, typed.areTrees ? treeNotice() : splitNotice(typed, byLine, reread));
  }

  function treeNotice() {
    if (isArcs()) return notice("A tree in brackets: its words are parsed.");
    const flip = () => {
      set({ words: state.words ? null : 1, tree: null, node: null });
      draw();
    };
    const other = (text) => h("button", { type: "button", class: "link", onclick: flip }, text);
    return state.words
      ? notice("A tree in brackets: its words are parsed. ", other("Draw the tree as it was given"))
      : notice("A tree in brackets: it is drawn as it was given. ", other("Parse its words instead"));
  }

  function question() {
    const text = typed.items[place];
    const isWords = typed.areTrees && state.words && !isArcs();
    const of = isWords ? { words: wordsOf(text) } : { sentence: text };
    return { ...of, model: known.name, k: Math.min(K, limits.k) };
  }

  const draw = latest(async () => {
    read();
    if (!typed.items.length) {
      clear();
      facts.textContent = "Waiting for a sentence.";
      return;
    }
    try {
      const began = performance.now();
      const asked = question();
      const report = isArcs()
        ? await ask("depend", asked)
        : await ask("draw", { ...asked, decoder: state.decoder ?? "f1" });
      put(says);
      whole = report;
      slider.max = String(Math.max(report.k_best.length, 1));
      slider.disabled = report.k_best.length < 2;
      if (rank() > 1 && report.k_best[rank() - 1]) await pick(rank());
      else show(report, 1);
      root.dataset.drawn = String(Math.round(performance.now() - began));
    } catch (error) {
      clear();
      put(says, failure(error));
    }
  });

  const pick = latest(async (wanted) => {
    const best = whole.k_best[wanted - 1];
    if (!best) return;
    if (wanted === 1) {
      show(whole, 1);
      return;
    }
    try {
      const report = isArcs()
        ? { ...(await ask("arcs", { conllu: best.conllu })), score: best.score }
        : await ask("tree", { tree: best.tree, model: known.name, decoder: state.decoder ?? "f1" });
      show({ ...report, kind: whole.kind, k_best: whole.k_best }, wanted);
    } catch (error) {
      put(says, failure(error));
    }
  });

  function clear() {
    for (const part of [frame.place, outline, triangle, facts]) put(part);
    panel.show();
    panel.close();
    membersCard.hidden = true;
    shown = null;
  }

  // -- trees and arcs --

  function show(report, wanted) {
    const width = Number(report.svg.match(/ width="(\d+)"/)[1]);
    split.classList.toggle("wide", width * READABLE > split.clientWidth - PANEL);
    shown = report;
    voices = null;
    membersCard.hidden = true;
    chartCard.hidden = isArcs();
    put(exportsPlace, isArcs() ? arcExports : treeExports);
    slider.value = String(wanted);
    sliderText.textContent = report.k_best.length
      ? `tree ${wanted} of ${report.k_best.length}`
      : "as it was given";
    put(outline, isArcs() ? arcsOutline(report) : outlineOf(report));
    const list = outline.querySelector("details");
    list.querySelector("summary").addEventListener("click", () => (list.dataset.touched = "yes"));
    if (isArcs()) showArcs(report, wanted);
    else showTree(report, wanted);
    const wish = state.node ? Number(state.node) : (state.node ?? null);
    chosen = report.nodes[wish] ? wish : null;
    if (chosen === null) showNothing();
    else {
      if (isArcs()) figure.show(chosen);
      else figure.choose(chosen);
      point(chosen);
      panel.open();
    }
  }

  function showTree(report, wanted) {
    if (FALLBACKS[report.kind]) put(says, notice(FALLBACKS[report.kind]));
    else if (report.kind === "given" && report.log_prob === null)
      put(says, notice("The model cannot build this tree: its probability is 0. It is drawn as it is."));
    put(facts, ...treeFacts(report, wanted));
    figure = treeFigure(report, {
      onpoint: (index) => point(index),
      onchoose: (index) => choosing(chosen === index ? null : index),
    });
    frame.show(figure.element);
    frame.place.dir = isRightToLeft(report.words) ? "rtl" : "ltr";
    chart = chartFigure(report, { onpoint: pointAtSpan, onchoose: chooseSpan });
    put(triangle, chart.element);
    askMembers(report);
    announce(`Tree of ${plural(report.words.length, "word")} drawn`);
  }

  function treeFacts(report, wanted) {
    const best = report.k_best[wanted - 1];
    const isSure = report.posterior !== undefined && report.posterior !== null;
    return [
      h("span", {}, plural(report.words.length, "word")),
      h("span", {}, term("log P(tree)"), " ", h("b", {}, number(report.log_prob))),
      h("span", {}, term("log P(sentence)"), " ", h("b", {}, number(report.sentence_log_prob))),
      isSure ? h("span", {}, term("P(tree | sentence)"), " ", h("b", {}, percent(report.posterior))) : null,
      best ? h("span", {}, scoreTerm(state.decoder ?? "f1"), " ", h("b", {}, number(best.score, 3))) : null,
    ].filter(Boolean);
  }

  function showArcs(report, wanted) {
    const best = report.k_best[wanted - 1];
    put(
      facts,
      h("span", {}, plural(report.words.length, "word")),
      best ? h("span", {}, scoreTerm("arcs"), " ", h("b", {}, number(best.score, 3))) : null,
    );
    figure = arcsFigure(report, { onshow: point, onchoose: choosing });
    frame.show(figure.element);
    announce("Dependencies drawn");
  }

  // -- the panel --

  function showNothing() {
    turn++;
    panel.close();
    const texts = isArcs()
      ? ["Word", "Point at a word to see its head, and the rivals of its head."]
      : ["Constituent", "Point at a label, or walk the tree with the arrow keys."];
    panel.show(h("div", {}, h("h2", {}, texts[0]), h("p", { class: "none" }, texts[1])));
  }

  // index: of the node under the pointer; null where there is none, so that the chosen one is shown again.
  function point(index, lights = true) {
    const at = index ?? chosen;
    if (lights && !isArcs()) {
      chart?.light(index === null ? null : [shown.nodes[index].start, shown.nodes[index].end]);
      figure?.light(null);
    }
    const node = shown.nodes[at];
    if (!node) return;
    const mine = ++turn;
    if (isArcs()) {
      panel.show(...wordParts(shown, at));
      return;
    }
    panel.show(
      headPart(node.label, shown.words.slice(node.start, node.end)),
      posteriorPart(shown, node),
      memberPart(voices, at),
      statesPart(shown, node, known.name, () => mine === turn),
    );
  }

  function choosing(index) {
    chosen = index;
    set({ node: index });
    if (!isArcs()) figure.choose(index);
    if (index === null) {
      panel.close();
      return;
    }
    if (isArcs()) figure.show(index);
    else point(index);
    panel.open(
      root.querySelector(isArcs() ? `text.word[data-node="${index + 1}"]` : `.node[data-index="${index}"]`),
    );
  }

  const nodeOver = ([start, end]) =>
    shown.nodes.findIndex((node) => node.start === start && node.end === end);

  function pointAtSpan(span) {
    chart.light(span);
    figure.light(span === null ? null : (node) => node.start === span[0] && node.end === span[1]);
    if (!span) return;
    const index = nodeOver(span);
    if (index >= 0) point(index, false);
    else {
      turn++;
      panel.show(...otherCell(shown, span));
    }
  }

  function chooseSpan(span) {
    const index = nodeOver(span);
    if (index >= 0) {
      choosing(index);
      return;
    }
    panel.show(...otherCell(shown, span));
    panel.open();
  }

  async function askMembers(report) {
    if (report.is_fallback || known.n_members < 2) return;
    try {
      const found = await ask("members", { model: known.name, tree: report.tree });
      if (report !== shown || !found.members.length) return;
      voices = found;
      const isDoubtful = (_, index) => found.nodes[index].disagree;
      figure.mark("doubt", isDoubtful);
      membersCard.hidden = false;
      put(membersCard, ...membersTable(found, report.nodes.filter(isDoubtful).length, known.name));
      if (chosen !== null) point(chosen);
    } catch {
      /* the tree stays, without opinions */
    }
  }

  // -- typing, sliding, drawing lots --

  function type(text) {
    input.value = text;
    input.dispatchEvent(new Event("input"));
  }

  async function surprise() {
    try {
      const seed = Math.floor(Math.random() * 2 ** 31);
      const found = await ask("sample", { n: 1, seed, model: known.name });
      type(wordsOf(found.trees[0]).join(" "));
    } catch (error) {
      put(says, failure(error));
    }
  }

  input.addEventListener("input", () => {
    set({ s: input.value, model: known.name, tree: null, node: null, line: null, words: null });
    draw();
  });
  slider.addEventListener("input", () => {
    set({ tree: slider.value === "1" ? null : slider.value, node: null });
    pick(Number(slider.value));
  });
  showModel();
  put(facts, busy("Loading the model"));
  draw();
  return () => panel.close();
}
