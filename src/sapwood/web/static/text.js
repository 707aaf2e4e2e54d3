// Language model: the probable next words, the words of each state, and the surprisal of each word.

import { ask } from "/static/api.js";
import { bars, busy, failure, field, h, latest, modelPicker, number, percent, put } from "/static/dom.js";
import { term } from "/static/terms.js";
import { showTyped } from "/static/typed.js";

const HINT = "Start the server with one: sapwood serve MODEL, where MODEL is a file of `sapwood lm train`";
const LEAD =
  "The likeliest next words, the hidden states as classes of words, and a sentence word by word: " +
  "the taller the bar, the more surprising the word.";
const UNKNOWN = "Dotted words are unknown to the model; it takes them all for the same unknown word.";
const SPECIAL = { "</s>": "(end)", "<unk>": "(an unknown word)" };
const shown = (text) => SPECIAL[text] ?? text;
const TALLEST = 90; // pixels

export function mount(root, { state, set, models }) {
  const usable = models.filter((model) => model.kind === "text");
  if (!usable.length) {
    root.append(h("h1", {}, "Language model"), failure({ message: "No language model here.", hint: HINT }));
    return;
  }
  new TextView(root, { state, set, models: usable }).start();
}

// The state of the view. `state` and `set` are those of the address; `page` holds the elements.
class TextView {
  constructor(root, { state, set, models }) {
    Object.assign(this, { state, set, models });
    this.model = models.find((model) => model.name === state.model) ?? models[0];
    this.showNext = latest(() => this.loadNext());
    this.showSurprise = latest(() => this.loadSurprise());
    this.showClasses = latest(() => this.loadClasses());
    this.page = buildTextPage(root, this);
  }

  start() {
    const { context, sentence, word } = this.page;
    context.addEventListener("input", () => {
      this.set({ context: context.value });
      this.showNext();
    });
    sentence.addEventListener("input", () => {
      this.set({ s: sentence.value, word_at: null, line: null });
      this.showSurprise();
    });
    word.addEventListener("input", () => {
      this.set({ word: word.value || null });
      this.showClasses();
    });
    this.showAll();
  }

  chooseModel(name) {
    this.model = this.models.find((model) => model.name === name);
    this.set({ model: name });
    this.showAll();
  }

  showAll() {
    const { about, next, surprise, classes } = this.page;
    about.textContent = this.model.about;
    for (const place of [next, surprise, classes]) put(place, busy("Loading the model"));
    this.showNext();
    this.showSurprise();
    this.showClasses();
  }

  async loadNext() {
    const { context, next } = this.page;
    try {
      put(
        next,
        ...nextWords(await ask("lm/next", { model: this.model.name, context: context.value, top: 10 })),
      );
    } catch (error) {
      put(next, failure(error));
    }
  }

  // The chosen sentence of the text.
  readSentence() {
    const { sentence, sentences, readAs } = this.page;
    const typed = showTyped(sentence.value, {
      state: this.state,
      chips: sentences,
      notice: readAs,
      treeNotice: () =>
        h("p", { class: "facts", role: "status" }, "A tree in brackets: its words are taken."),
      onchange: (values) => {
        this.set({ word_at: null, ...values });
        this.showSurprise();
      },
    });
    return typed.items[typed.index];
  }

  async loadSurprise() {
    const { detail, surprise } = this.page;
    put(detail);
    const text = this.readSentence();
    if (!text) {
      put(surprise, h("p", { class: "none" }, "Waiting for a sentence."));
      return;
    }
    try {
      const report = await ask("lm/surprise", { model: this.model.name, sentence: text });
      const choosing = (index) => {
        this.set({ word_at: index });
        put(detail, ...wordDetail(report.words[index]));
      };
      put(surprise, ...surpriseFigure(report, choosing));
      const index = this.state.word_at;
      const chosen = index === undefined || index === null ? null : report.words[Number(index)];
      if (chosen) put(detail, ...wordDetail(chosen));
    } catch (error) {
      put(surprise, failure(error));
    }
  }

  async loadClasses() {
    const { word, classes } = this.page;
    try {
      const after = word.value.trim() || null;
      const found = await ask("lm/classes", { model: this.model.name, top: 12, word: after });
      const none = h("p", { class: "none" }, "This model has no hidden states.");
      put(classes, found.states.length ? h("div", { class: "cards" }, found.states.map(classCard)) : none);
    } catch (error) {
      put(classes, failure(error));
    }
  }
}

function buildTextPage(root, view) {
  const { state } = view;
  const sentence = h("textarea", { rows: 2, dir: "auto", spellcheck: false, "aria-label": "A sentence" });
  sentence.value = state.s ?? "the kind king gave a song to every cook .";
  const context = h("input", {
    type: "text",
    value: state.context ?? "they saw the",
    dir: "auto",
    spellcheck: false,
  });
  const word = h("input", { type: "search", value: state.word ?? "", placeholder: "king", dir: "auto" });
  const about = h("span", { class: "facts" });
  const sentences = h("div", { class: "chips", role: "group", "aria-label": "Sentences" });
  const detail = h("div", { "aria-live": "polite" });
  const [next, surprise, classes, readAs] = [0, 1, 2, 3].map(() => h("div", {}));
  const picker = modelPicker(view.models, view.model, (name) => view.chooseModel(name));
  const title = (text) => h("header", {}, h("h2", {}, text));
  root.append(
    h("h1", {}, "Language model"),
    h("p", { class: "lead" }, LEAD),
    h("div", { class: "bar" }, field("Model", picker), about),
    h(
      "div",
      { class: "split" },
      h(
        "section",
        { class: "card", "aria-label": "Surprise" },
        title("Word by word"),
        sentence,
        sentences,
        readAs,
        h("p", {}),
        surprise,
        detail,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Next words" },
        title("Next words"),
        field("After", context),
        next,
      ),
    ),
    h("p", {}),
    h(
      "section",
      { "aria-label": "Classes" },
      h(
        "div",
        { class: "bar" },
        h("h2", {}, "States as word classes"),
        field("Only those after the word", word),
      ),
      classes,
    ),
  );
  return { context, sentence, word, about, sentences, readAs, next, surprise, detail, classes };
}

// found: the answer of lm/next.
function nextWords(found) {
  const unknown = new Set(found.unknown);
  const words = found.context.map((one) => [
    h("span", { class: unknown.has(one) ? "unknown" : "" }, one),
    " ",
  ]);
  return [
    h("p", { class: "quote context", dir: "auto" }, words.length ? words : "(start of a sentence)", " …"),
    unknown.size ? h("p", { class: "none" }, UNKNOWN) : null,
    bars(found.next.map((one) => [shown(one.word), one.p])),
  ];
}

// A column for each word of the answer of lm/surprise; onchoose is called with the index of a word.
function surpriseFigure(report, onchoose) {
  const most = Math.max(...report.words.map((one) => one.bits ?? 30), 1);
  const columns = report.words.map((one, k) =>
    h(
      "li",
      {},
      surpriseColumn(one, most, () => onchoose(k)),
    ),
  );
  return [
    h("ol", { class: "surprise", dir: "auto" }, columns),
    report.words.some((one) => !one.known) ? h("p", { class: "none" }, UNKNOWN) : null,
    h(
      "p",
      { class: "facts" },
      h("span", {}, h("b", {}, number(report.bits, 1)), " ", term("bits")),
      h("span", {}, term("perplexity"), " ", h("b", {}, number(report.perplexity, 1))),
    ),
  ];
}

function surpriseColumn(one, most, onclick) {
  const says = `${shown(one.word)}: ${number(one.bits, 1)} bits${one.known ? "" : ", an unknown word"}`;
  return h(
    "button",
    { type: "button", "aria-label": says, onclick },
    h("i", { style: { height: `${4 + (TALLEST * (one.bits ?? most)) / most}px` } }),
    h("span", { class: one.known ? "word" : "word unknown" }, shown(one.word)),
    h("small", {}, number(one.bits, 1)),
  );
}

function wordDetail(one) {
  const rank = `number ${one.rank} among the words that could stand here`;
  const states = one.states.map((other) => [`state ${other.state}`, other.p]);
  return [
    h("h3", {}, shown(one.word)),
    h("p", { class: "facts" }, one.known ? rank : "an unknown word"),
    h("p", { class: "small" }, "Likeliest here"),
    bars(one.instead.map((other) => [shown(other.word), other.p])),
    states.length ? [h("p", { class: "small" }, "States after it"), bars(states, { most: 1 })] : null,
  ];
}

function classCard(one) {
  const words = (title, list) => [
    h("p", { class: "small" }, title),
    h("p", { class: "words", dir: "auto" }, list.join(", ")),
  ];
  return h(
    "article",
    { class: "card" },
    h("h3", {}, `State ${one.state}`, h("small", {}, percent(one.share))),
    h("div", { class: "track" }, h("i", { style: { width: `${100 * one.share}%` } })),
    words("After", one.after),
    words("Then", one.then),
  );
}
