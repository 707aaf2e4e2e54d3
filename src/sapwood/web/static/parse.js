// Parse: sentences in, trees out. The panel shows the posterior of a constituent, other phrases over the same words,
// and the hidden states of the constituent.

import { ask } from "/static/api.js";
import { chartFigure } from "/static/chart.js";
import { askOpinions, membersTable, nodeParts, otherCell } from "/static/constituent.js";
import { arcsFigure, arcsOutline, wordParts } from "/static/dependencies.js";
import { announce, busy, failure, isRightToLeft, latest, plural, put } from "/static/dom.js";
import {
  arcFacts,
  bracketsNotice,
  buildParsePage,
  emptyPart,
  fallbackNotice,
  showModel,
  treeFacts,
} from "/static/parse-page.js";
import { clearSurprisal, showSurprisal } from "/static/surprisal.js";
import { outlineOf, treeFigure } from "/static/tree.js";
import { showTyped, wordsOf } from "/static/typed.js";

const N_BEST = 10; // trees in the list of the best
const READABLE = 0.8; // scale down to which a tree may shrink before it takes the whole width of the page
const PANEL = 380; // pixels of the panel and the gaps beside a tree

export function mount(root, { state, set, models, limits }) {
  const usable = models.filter((model) => model.kind === "trees" || model.kind === "arcs");
  if (!usable.length) {
    root.append(
      failure({ message: "No model here parses.", hint: "Start the server with one: sapwood serve MODEL" }),
    );
    return undefined;
  }
  const view = new ParseView(root, { state, set, models: usable, limits });
  view.start();
  return () => {
    view.page.panel.close();
    view.page.editor.stop();
  };
}

// The state of the view. `state` and `set` are those of the address; `page` holds the elements.
class ParseView {
  constructor(root, { state, set, models, limits }) {
    Object.assign(this, { root, state, set, models, limits });
    this.model = models.find((model) => model.name === state.model) ?? models[0];
    this.typed = { items: [], index: 0 };
    this.sentenceReport = null; // the report on the sentence, with the list of its best trees
    this.shown = null; // the report on the tree on show, which may be one of the list
    this.figure = null;
    this.chart = null;
    this.chosen = null; // number of the node that stays in the panel
    this.opinions = null; // posteriors by the members of an ensemble
    this.panelTurn = 0; // counts the contents of the panel, so that late answers for old ones are dropped
    this.draw = latest(() => this.parseAndShow());
    this.pickTree = latest((rank) => this.showRanked(rank));
    this.page = buildParsePage(this);
  }

  get isArcs() {
    return this.model.kind === "arcs";
  }

  get decoder() {
    return this.state.decoder ?? "f1";
  }

  get rank() {
    return Math.max(1, Number(this.state.tree) || 1);
  }

  start() {
    const { input, slider, facts } = this.page;
    input.addEventListener("input", () => {
      const another = { tree: null, node: null, line: null, words: null };
      this.page.editor.forget();
      this.set({ s: input.value, model: this.model.name, ...another });
      this.draw();
    });
    slider.addEventListener("input", () => {
      this.set({ tree: slider.value === "1" ? null : slider.value, node: null });
      this.pickTree(Number(slider.value));
    });
    showModel(this);
    put(facts, busy("Loading the model"));
    this.draw();
  }

  // -- choices above the tree --

  // Changes the address and parses again; another tree will be on show.
  change(values) {
    this.set({ ...values, tree: null });
    this.draw();
  }

  // Another sentence of the text, or the same one read in another way: constraints do not fit it.
  changeSentence(values) {
    this.page.editor.forget();
    this.change({ ...values, node: null });
  }

  chooseModel(name) {
    this.model = this.models.find((model) => model.name === name);
    this.set({ model: name, tree: null, node: null });
    showModel(this);
    this.draw();
  }

  typeText(text) {
    this.page.input.value = text;
    this.page.input.dispatchEvent(new Event("input"));
  }

  async typeRandomSentence() {
    try {
      const seed = Math.floor(Math.random() * 2 ** 31);
      const found = await ask("sample", { n: 1, seed, model: this.model.name });
      this.typeText(wordsOf(found.trees[0]).join(" "));
    } catch (error) {
      put(this.page.problem, failure(error));
    }
  }

  readInput() {
    const { input, sentences, readAs } = this.page;
    this.typed = showTyped(input.value, {
      state: this.state,
      chips: sentences,
      notice: readAs,
      treeNotice: () =>
        bracketsNotice(this, () => this.changeSentence({ words: this.state.words ? null : 1 })),
      onchange: (values) => this.changeSentence(values),
    });
  }

  // -- requests for trees --

  request() {
    const text = this.typed.items[this.typed.index];
    const isWords = this.typed.areTrees && this.state.words && !this.isArcs;
    const sentence = isWords ? { words: wordsOf(text) } : { sentence: text };
    return { ...sentence, model: this.model.name, k: Math.min(N_BEST, this.limits.k) };
  }

  // A question about trees, with the decoder and the constraints.
  treeRequest(question) {
    return { ...question, ...this.page.editor.fields(), decoder: this.decoder };
  }

  async parseAndShow() {
    const { facts, problem, slider } = this.page;
    this.readInput();
    if (!this.typed.items.length) {
      this.clear();
      facts.textContent = "Waiting for a sentence.";
      return;
    }
    try {
      const began = performance.now();
      const report = this.isArcs
        ? await ask("depend", this.request())
        : await ask("draw", this.treeRequest(this.request()));
      put(problem);
      this.sentenceReport = report;
      slider.max = String(Math.max(report.k_best.length, 1));
      slider.disabled = report.k_best.length < 2;
      if (this.rank > 1 && report.k_best[this.rank - 1]) await this.pickTree(this.rank);
      else this.show(report, 1);
      this.root.dataset.drawn = String(Math.round(performance.now() - began));
    } catch (error) {
      this.fail(error);
    }
  }

  // Where constraints are refused, the tree before them stays, so that they can be changed.
  fail(error) {
    const { editor, problem } = this.page;
    const isRefused = !this.isArcs && editor.items.length > 0;
    if (!isRefused || this.shownBy !== this.model) this.clear();
    if (isRefused) editor.refuse(error);
    else put(problem, failure(error));
  }

  // Shows the tree of this rank, from 1, in the list of the best trees.
  async showRanked(rank) {
    const { kind, k_best } = this.sentenceReport;
    const best = k_best[rank - 1];
    if (!best) return;
    if (rank === 1) {
      this.show(this.sentenceReport, 1);
      return;
    }
    try {
      const report = this.isArcs
        ? { ...(await ask("arcs", { conllu: best.conllu })), score: best.score }
        : await ask("tree", this.treeRequest({ tree: best.tree, model: this.model.name }));
      this.show({ ...report, kind, k_best }, rank);
    } catch (error) {
      put(this.page.problem, failure(error));
    }
  }

  clear() {
    const { frame, outline, triangle, facts, panel, membersCard, surprisal, editor } = this.page;
    for (const part of [frame.place, outline, triangle, facts, surprisal]) put(part);
    editor.hide();
    panel.show();
    panel.close();
    membersCard.hidden = true;
    this.page.beside.hide();
    this.shown = null;
  }

  // -- the tree, or the arcs --

  show(report, rank) {
    const { split, membersCard, chartCard, exportsPlace, treeExports, arcExports } = this.page;
    const width = Number(report.svg.match(/ width="(\d+)"/)[1]);
    split.classList.toggle("wide", width * READABLE > split.clientWidth - PANEL);
    this.shown = report;
    this.shownBy = this.model;
    this.opinions = null;
    membersCard.hidden = true;
    chartCard.hidden = this.isArcs;
    put(exportsPlace, this.isArcs ? arcExports : treeExports);
    this.showRank(report, rank);
    this.showOutline(report);
    if (this.isArcs) this.showArcs(report, rank);
    else this.showTree(report, rank);
    this.page.beside.show(this, report);
    this.showChosen(report);
  }

  showRank(report, rank) {
    const n = report.k_best.length;
    this.page.slider.value = String(rank);
    this.page.sliderText.textContent = n ? `tree ${rank} of ${n}` : "as it was given";
  }

  showOutline(report) {
    put(this.page.outline, this.isArcs ? arcsOutline(report) : outlineOf(report));
    const list = this.page.outline.querySelector("details");
    list.querySelector("summary").addEventListener("click", () => (list.dataset.touched = "yes"));
  }

  // Opens the panel for the node that the address names.
  showChosen(report) {
    const wanted = this.state.node ? Number(this.state.node) : (this.state.node ?? null);
    this.chosen = report.nodes[wanted] ? wanted : null;
    if (this.chosen === null) {
      this.showNothing();
      return;
    }
    if (this.isArcs) this.figure.show(this.chosen);
    else this.figure.choose(this.chosen);
    this.pointAt(this.chosen);
    this.page.panel.open();
  }

  showTree(report, rank) {
    const { problem, facts, frame, triangle, editor } = this.page;
    put(problem, fallbackNotice(report, editor.items.length > 0));
    put(facts, ...treeFacts(report, report.k_best[rank - 1], this.decoder));
    this.figure = treeFigure(report, {
      onpoint: (index) => this.pointAt(index),
      onchoose: (index) => this.chooseNode(this.chosen === index ? null : index),
    });
    frame.show(this.figure.element);
    frame.place.dir = isRightToLeft(report.words) ? "rtl" : "ltr";
    this.chart = chartFigure(report, {
      onpoint: (span) => this.pointAtSpan(span),
      onchoose: (span) => this.chooseSpan(span),
    });
    put(triangle, this.chart.element);
    editor.show(report);
    this.figure.mark("asked", (node) => editor.canAsk && editor.isAsked(node));
    if (!report.is_fallback && this.model.n_members > 1) this.askMembers(report);
    this.showSurprisal(report);
    announce(`Tree of ${plural(report.words.length, "word")} drawn`);
  }

  showSurprisal(report) {
    const places = { editor: this.page.editor, table: this.page.surprisal };
    if (this.model.can_sample)
      showSurprisal(this.model.name, report.words, places, () => report === this.shown);
    else clearSurprisal(places);
  }

  showArcs(report, rank) {
    put(this.page.facts, ...arcFacts(report, report.k_best[rank - 1]));
    put(this.page.surprisal);
    this.page.editor.hide();
    this.figure = arcsFigure(report, {
      onshow: (index) => this.pointAt(index),
      onchoose: (index) => this.chooseNode(index),
    });
    this.page.frame.show(this.figure.element);
    announce("Dependencies drawn");
  }

  // -- the panel --

  // Shows parts in the panel; answers for what was there before are dropped.
  showParts(parts) {
    this.panelTurn++;
    this.page.panel.show(...parts);
  }

  showNothing() {
    this.page.panel.close();
    this.showParts([emptyPart(this.isArcs)]);
  }

  // index: the node under the pointer, or null where there is none; the chosen node is then shown again.
  // lights: whether the cell of the chart is marked too.
  pointAt(index, lights = true) {
    const at = index ?? this.chosen;
    if (lights && !this.isArcs) {
      const node = index === null ? null : this.shown.nodes[index];
      this.chart?.light(node ? [node.start, node.end] : null);
      this.figure?.light(null);
    }
    const node = this.shown.nodes[at];
    if (!node) return;
    const turn = ++this.panelTurn;
    if (this.isArcs) {
      this.page.panel.show(...wordParts(this.shown, at));
      return;
    }
    const isWanted = () => turn === this.panelTurn;
    const about = { opinions: this.opinions, model: this.model.name, isWanted };
    const [head, ...rest] = nodeParts(this.shown, at, about);
    this.page.panel.show(head, this.page.editor.nodePart(node), ...rest);
  }

  chooseNode(index) {
    const { panel } = this.page;
    this.chosen = index;
    this.set({ node: index });
    if (!this.isArcs) this.figure.choose(index);
    if (index === null) {
      panel.close();
      return;
    }
    if (this.isArcs) this.figure.show(index);
    else this.pointAt(index);
    const selector = this.isArcs ? `text.word[data-node="${index + 1}"]` : `.node[data-index="${index}"]`;
    panel.open(this.root.querySelector(selector));
  }

  nodeOver([start, end]) {
    return this.shown.nodes.findIndex((node) => node.start === start && node.end === end);
  }

  pointAtSpan(span) {
    this.chart.light(span);
    this.figure.light(span === null ? null : (node) => node.start === span[0] && node.end === span[1]);
    if (!span) return;
    const index = this.nodeOver(span);
    if (index >= 0) {
      this.pointAt(index, false);
      return;
    }
    this.showOther(span);
  }

  showOther(span) {
    this.showParts([...otherCell(this.shown, span), this.page.editor.cellPart(span)]);
  }

  chooseSpan(span) {
    const index = this.nodeOver(span);
    if (index >= 0) {
      this.chooseNode(index);
      return;
    }
    this.showOther(span);
    this.page.panel.open();
  }

  askMembers(report) {
    const question = { model: this.model.name, tree: report.tree, ...this.page.editor.fields() };
    askOpinions(question, (found) => report === this.shown && this.showOpinions(found));
  }

  showOpinions(found) {
    this.opinions = found;
    const disagrees = (_, index) => found.nodes[index].disagree;
    this.figure.mark("doubt", disagrees);
    this.page.membersCard.hidden = false;
    const n_disagreements = this.shown.nodes.filter(disagrees).length;
    put(this.page.membersCard, ...membersTable(found, n_disagreements, this.model.name));
    if (this.chosen !== null) this.pointAt(this.chosen);
  }
}
