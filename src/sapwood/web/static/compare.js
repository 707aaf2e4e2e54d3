// Compare: two models on the same sentence, or on the same gold trees.

import { ask } from "/static/api.js";
import { errorClasses, scoreTable, sentenceTable } from "/static/compare-gold.js";
import { busy, choose, failure, field, h, latest, number, plural, put } from "/static/dom.js";
import { term } from "/static/terms.js";
import { treeFigure } from "/static/tree.js";
import { isTree, showTyped } from "/static/typed.js";

const DEFAULT = "he helped Max meet cooks with our hat .";
const LEAD =
  "Two models on the same words. What only one of them has is marked; " +
  "on gold trees, the scores and the classes of errors.";

export function mount(root, { state, set, models }) {
  const usable = models.filter((model) => model.kind === "trees");
  if (!usable.length) {
    const hint = "Start the server with two: sapwood serve MODEL OTHER";
    root.append(failure({ message: "No grammar here to compare.", hint }));
    return;
  }
  new CompareView(root, { state, set, models: usable }).start();
}

// The state of the view. `state` and `set` are those of the address; `page` holds the elements.
class CompareView {
  constructor(root, { state, set, models }) {
    Object.assign(this, { state, set, models });
    const nameOf = (name, other) => (models.find((model) => model.name === name) ?? other).name;
    this.a = nameOf(state.a, models[0]);
    this.b = nameOf(state.b, models[1] ?? models[0]);
    this.gold = null; // the text of a file of gold trees
    this.turn = 0; // counts the requests, so that late answers are dropped
    this.run = latest(() => this.compare());
    this.page = buildComparePage(root, this);
  }

  start() {
    const { input, file } = this.page;
    input.addEventListener("input", () => {
      this.gold = null;
      file.value = "";
      this.set({ s: input.value, a: this.a, b: this.b, line: null });
      this.run();
    });
    this.run();
  }

  // which: "a" or "b".
  chooseModel(which, name) {
    this[which] = name;
    this.set({ [which]: name });
    this.run();
  }

  async readFile(file) {
    this.gold = await file.text();
    this.run();
  }

  // The chosen sentence of the text.
  readSentence() {
    const { input, sentences, readAs } = this.page;
    const typed = showTyped(input.value, {
      state: this.state,
      chips: sentences,
      notice: readAs,
      onchange: (values) => {
        this.set(values);
        this.run();
      },
    });
    return typed.items[typed.index] ?? "";
  }

  async compare() {
    const { input, out } = this.page;
    const turn = ++this.turn;
    const isGold = this.gold !== null || isTree(input.value);
    const text = isGold ? input.value.trim() : this.readSentence();
    if (!this.gold && !text) {
      put(out, h("p", { class: "none" }, "Waiting for a sentence."));
      return;
    }
    if (!out.childElementCount || this.gold) put(out, busy("Parsing"));
    try {
      const found = await ask("compare", {
        models: [this.a, this.b],
        ...(isGold ? { gold: this.gold ?? text } : { sentence: text }),
      });
      if (turn === this.turn) put(out, ...(isGold ? this.onGold(found) : this.onSentence(found)));
    } catch (error) {
      if (turn === this.turn) put(out, failure(error));
    }
  }

  // Two trees stand one above the other where they would become too small side by side.
  arrangement(report) {
    const width = Number(report.svg.match(/ width="(\d+)"/)[1]);
    return width * 0.75 > this.page.out.clientWidth / 2 - 60 ? "stack" : "pair";
  }

  onSentence(found) {
    const note = (report) =>
      report.is_fallback
        ? "no parse: pieces side by side"
        : h("span", {}, term("log P"), ` ${number(report.log_prob)}`);
    return [
      h("p", { class: "facts", role: "status" }, differenceText(found)),
      h(
        "div",
        { class: this.arrangement(found.sides[0]) },
        found.sides.map((report) => treeCard(report, report.model, note(report))),
      ),
    ];
  }

  onGold(found) {
    const detail = h("div", { class: "stack" });
    const rows = [...found.sentences].sort((x, y) => Math.min(...x.f1) - Math.min(...y.f1));
    const models = [this.a, this.b];
    if (rows.length) this.showSentence(rows[0], detail);
    return [
      scoreTable(found),
      errorClasses(found.models),
      sentenceTable(rows, models, (row) => this.showSentence(row, detail)),
      detail,
    ];
  }

  // The trees of both models for one sentence, and its gold tree.
  async showSentence(row, place) {
    try {
      const pairs = await Promise.all(
        row.trees.map((tree) => ask("difference", { trees: [row.gold, tree] })),
      );
      const gold = pairs[0].sides[0];
      const score = (k) => h("span", {}, term("F1"), ` ${number(row.f1[k], 1)}`);
      const unmarked = gold.nodes.map((node) => ({ ...node, differs: false }));
      put(
        place,
        h(
          "div",
          { class: this.arrangement(gold) },
          pairs.map((pair, k) => treeCard(pair.sides[1], [this.a, this.b][k], score(k))),
        ),
        treeCard({ ...gold, nodes: unmarked }, "Gold", ""),
      );
    } catch (error) {
      put(place, failure(error));
    }
  }
}

function buildComparePage(root, view) {
  const options = view.models.map((model) => [model.name, model.name]);
  const picker = (which) => choose(options, view[which], (name) => view.chooseModel(which, name));
  const input = h("textarea", {
    rows: 2,
    dir: "auto",
    spellcheck: false,
    "aria-label": "A sentence, or gold trees in brackets",
    placeholder: "A sentence; or gold trees in brackets",
  });
  input.value = view.state.s ?? DEFAULT;
  const file = h("input", {
    type: "file",
    "aria-label": "Gold trees from a file",
    onchange: () => {
      if (file.files[0]) view.readFile(file.files[0]);
    },
  });
  const out = h("div", { class: "stack" });
  const sentences = h("div", { class: "chips", role: "group", "aria-label": "Sentences" });
  const readAs = h("div", {}); // how the typed text is split into sentences
  root.append(
    h("h1", {}, "Compare"),
    h("p", { class: "lead" }, LEAD),
    h(
      "div",
      { class: "bar" },
      field("One model", picker("a")),
      field("Another", picker("b")),
      field("Gold trees from a file", file),
    ),
    input,
    sentences,
    readAs,
    h("p", {}),
    out,
  );
  return { input, file, sentences, readAs, out };
}

// A tree with the nodes marked that another tree does not have.
function treeCard(report, title, note) {
  const figure = treeFigure(report, { label: title });
  figure.mark("differs", (node) => node.differs);
  return h(
    "section",
    { class: "card", "aria-label": title },
    h("header", {}, h("h2", {}, title), h("span", { class: "facts" }, note)),
    h("div", { class: "figure fit" }, figure.element),
  );
}

function differenceText({ sides, shared }) {
  const n_differing = sides.flatMap((side) => side.nodes).filter((node) => node.differs).length;
  if (!n_differing) return "Both give the same tree.";
  return h(
    "span",
    {},
    h("b", {}, plural(n_differing, "node")),
    " that only one tree has; ",
    h("b", {}, String(shared)),
    " phrases in both",
  );
}
