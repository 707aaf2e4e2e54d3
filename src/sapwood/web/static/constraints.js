// The words above a tree and what somebody asks of it there: a form for the words that were chosen, the constraints
// that hold, how probable they are, and why the server refuses some.

import { ask } from "/static/api.js";
import { announce, choose, failure, h, put, tinyPercent } from "/static/dom.js";
import {
  addGiven,
  dropGiven,
  fieldsOf,
  isSame,
  quoteWords,
  readGiven,
  sayGiven,
  writeGiven,
} from "/static/given.js";
import { term } from "/static/terms.js";
import { followDrags, WordRow } from "/static/words.js";

const HINT = "Drag over words to ask for a phrase, or click one for its tag.";

// view: the view Parse, whose address holds the constraints and which parses again when they change. place: the
// element that holds the drawing of the tree, whose words can be dragged over too.
export class ConstraintEditor {
  constructor(view, place) {
    this.view = view;
    Object.assign(this, readGiven(view.state.given ?? "")); // n_words, items
    this.report = null;
    this.labels = null; // promise of the labels of the model `labelsOf`
    this.labelsOf = null;
    this.row = new WordRow({
      onselect: (span) => this.showSelection(span),
      onask: (span, kind) => this.openForm(span, kind),
    });
    this.parts = {
      form: h("form", { class: "wish", hidden: true, "aria-label": "Phrase to ask for" }),
      chips: h("div", { class: "chips given", role: "group", "aria-label": "Constraints" }),
      refusal: h("div", {}),
      hint: h("span", {}, HINT),
      bars: h("span", { hidden: true }, "Bars: ", term("surprisal"), "."),
    };
    const { form, chips, refusal, hint, bars } = this.parts;
    const says = h("p", { class: "facts" }, hint, bars);
    this.element = h("div", { class: "asked", hidden: true }, this.row.element, says, form, chips, refusal);
    this.place = place;
    const stop = followDrags(place, {
      takesClicks: false,
      onmove: (span) => this.canAsk && this.row.select(span),
      ondone: (span, kind) => this.canAsk && this.row.choose(span, kind),
    });
    this.stop = () => {
      stop();
      this.row.stop();
    };
  }

  get canAsk() {
    return this.report !== null && this.report.kind !== "given";
  }

  // The fields of a request that hold the constraints.
  fields() {
    return this.items.length ? fieldsOf(this.items, this.n_words) : {};
  }

  // Forgets the constraints: the sentence is another one.
  forget() {
    this.items = [];
    this.view.set({ given: null });
    this.closeForm();
  }

  hide() {
    this.element.hidden = true;
    this.report = null;
    this.closeForm();
  }

  // report: on the tree that is drawn now, which satisfies the constraints.
  show(report) {
    this.report = report;
    this.element.hidden = false;
    this.row.element.hidden = false;
    this.row.show(report.words, this.canAsk);
    this.parts.hint.hidden = !this.canAsk;
    put(this.parts.refusal);
    this.closeForm();
    this.showItems();
  }

  // rows: those of the surprisal, or null where there are none.
  showSurprisal(rows) {
    this.row.showSurprisal(rows);
    this.parts.bars.hidden = rows === null;
  }

  // The server has refused the constraints; the tree that was drawn before stays.
  refuse(error) {
    this.element.hidden = false;
    this.row.element.hidden = !this.report;
    this.parts.hint.hidden = !this.canAsk;
    put(this.parts.refusal, failure(error));
    this.closeForm();
    this.showItems();
  }

  // -- constraints --

  change(items) {
    this.items = items;
    if (this.report) this.n_words = this.report.words.length;
    const places = [this.element, this.view.page.panel.element];
    this.wantsFocus = places.some((place) => place.contains(document.activeElement));
    this.view.change({ given: writeGiven(items, this.n_words), node: null });
  }

  add(kind, [start, end], label) {
    this.change(addGiven(this.items, { kind, start, end, label }));
  }

  has(kind, [start, end], label) {
    return this.items.some((item) => isSame(item, { kind, start, end, label }));
  }

  toggle(kind, span, label) {
    const [start, end] = span;
    if (this.has(kind, span, label)) this.change(dropGiven(this.items, { kind, start, end, label }));
    else this.add(kind, span, label);
  }

  setTag(k, tag) {
    const others = this.items.filter((item) => item.kind !== "tag" || item.start !== k);
    this.change(tag ? [...others, { kind: "tag", start: k, end: k + 1, label: tag }] : others);
  }

  tagOf(k) {
    return this.items.find((item) => item.kind === "tag" && item.start === k)?.label ?? "";
  }

  showItems() {
    const { chips } = this.parts;
    const words = this.report?.words ?? [];
    const chip = (item) => {
      const text = sayGiven(item, words);
      const onclick = () => this.change(dropGiven(this.items, item));
      const look = { type: "button", class: `chip ${item.kind}`, "aria-label": `Remove: ${text}`, onclick };
      return h("button", look, h("span", { dir: "auto" }, text), h("span", { "aria-hidden": "true" }, "×"));
    };
    const items = this.canAsk || !this.report ? this.items : [];
    put(chips, items.map(chip), items.length ? this.chipsEnd() : null);
    chips.hidden = !items.length;
    if (this.wantsFocus) queueMicrotask(() => this.focusAgain()); // when all of the page is drawn
    this.wantsFocus = false;
  }

  chipsEnd() {
    const clear = () => this.change([]);
    const says = h("span", { class: "facts" });
    if (this.report && !this.parts.refusal.firstChild) this.showProbability(says);
    return [h("button", { type: "button", class: "chip", onclick: clear }, "Clear all"), says];
  }

  // Arrives after the tree: sums over all trees, with and without the constraints, take longer than the best tree.
  async showProbability(place) {
    const { items } = this;
    if (this.probability?.items !== items) {
      const question = this.view.treeRequest({ ...this.view.request(), k: 1 });
      this.probability = { items, answer: ask("parse", question) };
    }
    try {
      const { constraint_probability: p } = await this.probability.answer;
      put(place, h("span", {}, term("P(constraints)"), " ", h("b", {}, tinyPercent(p))));
    } catch {
      this.probability = null; // the tree stays, without the probability
    }
  }

  // Where what had the focus is gone, the newest constraint has it, or else the words.
  focusAgain() {
    if (document.activeElement !== document.body) return;
    const chips = this.parts.chips.querySelectorAll(".span, .not, .tag");
    if (chips.length) chips[chips.length - 1].focus();
    else this.row.option(this.row.current)?.focus();
  }

  // -- the form for the chosen words --

  showSelection(span) {
    for (const word of this.place.querySelectorAll("[data-word]")) {
      const k = Number(word.dataset.word);
      word.classList.toggle("picked", span !== null && k >= span[0] && k < span[1]);
    }
    if (span === null && !this.parts.form.hidden) this.closeForm();
  }

  loadLabels() {
    const model = this.view.model.name;
    if (this.labelsOf !== model) {
      this.labelsOf = model;
      this.labels = ask("labels", { model });
      this.labels.catch(() => (this.labelsOf = null));
    }
    return this.labels;
  }

  closeForm() {
    const { form } = this.parts;
    const hadFocus = form.contains(document.activeElement);
    form.hidden = true;
    put(form);
    if (this.row.element.querySelector("[aria-selected=true]")) this.row.select(null);
    if (hadFocus) this.row.option(this.row.current)?.focus();
  }

  // kind: of the pointer, or "keyboard"; fingers get no keyboard on the screen unless they ask for it.
  async openForm(span, kind) {
    const { form } = this.parts;
    const [start, end] = span;
    const label = h("input", {
      type: "text",
      list: "labels",
      placeholder: "any phrase",
      autocomplete: "off",
    });
    const known = h("datalist", { id: "labels" });
    const tagPlace = h("span", { class: "chips" });
    put(form, ...this.formParts(span, label), known, tagPlace);
    form.onsubmit = (event) => {
      event.preventDefault();
      this.addLabelled("span", span, label.value);
    };
    form.onkeydown = (event) => {
      if (event.key === "Escape") this.closeForm();
    };
    form.hidden = false;
    if (kind !== "touch") label.focus();
    announce(`Phrase over ${quoteWords(this.report.words, { start, end })}`);
    try {
      const found = await this.loadLabels();
      put(
        known,
        found.phrases.map((name) => h("option", { value: name })),
      );
      if (end === start + 1) put(tagPlace, this.tagField(start, found.tags));
    } catch (error) {
      put(this.parts.refusal, failure(error));
    }
  }

  formParts(span, label) {
    const [start, end] = span;
    const quoted = quoteWords(this.report.words, { start, end });
    const button = (text, attributes) => h("button", { type: "button", class: "chip", ...attributes }, text);
    return [
      h("span", { class: "quote", dir: "auto" }, quoted),
      h("label", { class: "check" }, "is", label),
      button("Ask for it", { type: "submit" }),
      button("Forbid it", { onclick: () => this.addLabelled("not", span, label.value) }),
      button("Cancel", { onclick: () => this.closeForm() }),
    ];
  }

  // Labels may be typed in lower case, also before the labels of the model have arrived.
  async addLabelled(kind, span, typed) {
    const label = typed.trim();
    const upper = label.toUpperCase();
    const known = await this.loadLabels().then(
      (found) => found.phrases,
      () => [],
    );
    this.add(kind, span, (known.includes(label) || !known.includes(upper) ? label : upper) || null);
  }

  // A select box for the tag of word k, the likeliest first.
  tagField(k, tags) {
    const cell = this.report.chart.find((one) => one.start === k && one.end === k + 1);
    const likely = (cell?.labels ?? []).map(([name]) => name).filter((name) => tags.includes(name));
    const rest = tags.filter((name) => !likely.includes(name));
    const options = [["", "free"], ...[...likely, ...rest].map((name) => [name, name])];
    const select = choose(options, this.tagOf(k), (tag) => this.setTag(k, tag));
    return h("label", { class: "check" }, "tag", select);
  }

  // -- the panel of a constituent --

  // Buttons for a node of the tree: keep or forbid a phrase, choose a tag.
  nodePart(node) {
    if (!this.canAsk || node.depth === 0) return null;
    const span = [node.start, node.end];
    const place = h("div", { class: "part chips" });
    if (node.is_tag) this.fillTag(place, node.start);
    else {
      const button = (text, kind) => {
        const isPressed = String(this.has(kind, span, node.label));
        const onclick = () => this.toggle(kind, span, node.label);
        return h("button", { type: "button", class: "chip", "aria-pressed": isPressed, onclick }, text);
      };
      put(place, button("Keep", "span"), button("Not this", "not"));
    }
    return place;
  }

  async fillTag(place, k) {
    try {
      put(place, this.tagField(k, (await this.loadLabels()).tags));
    } catch {
      // Without the labels of the model no tag can be chosen.
    }
  }

  // A button for a span that is not in the tree.
  cellPart(span) {
    if (!this.canAsk) return null;
    const onclick = () => {
      this.view.page.panel.close();
      this.element.scrollIntoView({ block: "nearest" });
      this.row.choose(span, "keyboard");
    };
    return h(
      "div",
      { class: "part" },
      h("button", { type: "button", class: "chip", onclick }, "Ask for a phrase here"),
    );
  }

  // Whether a node of the tree is there because it was asked for.
  isAsked(node) {
    const span = [node.start, node.end];
    if (node.is_tag) return this.tagOf(node.start) === node.label;
    return this.has("span", span, node.label) || this.has("span", span, null);
  }
}
