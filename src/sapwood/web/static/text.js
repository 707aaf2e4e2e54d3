// Language model: what comes next, what the states stand for, how surprising each word is.

import { ask } from "/static/api.js";
import { bars, busy, choose, failure, field, h, latest, number, percent, put } from "/static/dom.js";
import { term } from "/static/terms.js";
import { itemChips, readTyped, splitNotice } from "/static/typed.js";

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
  let known = usable.find((one) => one.name === state.model) ?? usable[0];
  const context = h("input", {
    type: "text",
    value: state.context ?? "they saw the",
    dir: "auto",
    spellcheck: false,
  });
  const sentence = h("textarea", { rows: 2, dir: "auto", spellcheck: false, "aria-label": "A sentence" });
  sentence.value = state.s ?? "the kind king gave a song to every cook .";
  const word = h("input", { type: "search", value: state.word ?? "", placeholder: "king", dir: "auto" });
  const [next, surprise, classes, readAs] = [0, 1, 2, 3].map(() => h("div", {}));
  const detail = h("div", { "aria-live": "polite" });
  const sentences = h("div", { class: "chips", role: "group", "aria-label": "Sentences" });
  const about = h("span", { class: "facts" });
  const picker = choose(
    usable.map((one) => [one.name, one.name]),
    known.name,
    (name) => {
      known = usable.find((one) => one.name === name);
      set({ model: name });
      showAll();
    },
  );
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
        h("header", {}, h("h2", {}, "Word by word")),
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
        h("header", {}, h("h2", {}, "Next words")),
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

  // -- next words --

  const showNext = latest(async () => {
    try {
      const found = await ask("lm/next", { model: known.name, context: context.value, top: 10 });
      const unknown = new Set(found.unknown);
      const words = found.context.map((one) => [
        h("span", { class: unknown.has(one) ? "unknown" : "" }, one),
        " ",
      ]);
      put(
        next,
        h("p", { class: "quote context", dir: "auto" }, words.length ? words : "(start of a sentence)", " …"),
        unknown.size ? h("p", { class: "none" }, UNKNOWN) : null,
        bars(found.next.map((one) => [shown(one.word), one.p])),
      );
    } catch (error) {
      put(next, failure(error));
    }
  });

  // -- word by word --

  function read() {
    const byLine = Boolean(state.lines);
    const typed = readTyped(sentence.value, { byLine });
    const place = Math.min(Number(state.line ?? 0) || 0, Math.max(typed.items.length - 1, 0));
    const choosing = (change) => {
      set({ word_at: null, ...change });
      showSurprise();
    };
    put(sentences, ...itemChips(typed, place, (k) => choosing({ line: k || null })));
    const split = splitNotice(typed, byLine, (lines) => choosing({ lines: lines ? 1 : null, line: null }));
    const words = h("p", { class: "facts", role: "status" }, "A tree in brackets: its words are taken.");
    put(readAs, typed.areTrees ? words : split);
    return typed.items[place];
  }

  const showSurprise = latest(async () => {
    put(detail);
    const text = read();
    if (!text) {
      put(surprise, h("p", { class: "none" }, "Waiting for a sentence."));
      return;
    }
    try {
      const report = await ask("lm/surprise", { model: known.name, sentence: text });
      const most = Math.max(...report.words.map((one) => one.bits ?? 30), 1);
      const columns = report.words.map((one, k) => h("li", {}, column(one, k, most)));
      put(
        surprise,
        h("ol", { class: "surprise", dir: "auto" }, columns),
        report.words.some((one) => !one.known) ? h("p", { class: "none" }, UNKNOWN) : null,
        h(
          "p",
          { class: "facts" },
          h("span", {}, h("b", {}, number(report.bits, 1)), " ", term("bits")),
          h("span", {}, term("perplexity"), " ", h("b", {}, number(report.perplexity, 1))),
        ),
      );
      const at =
        state.word_at === undefined || state.word_at === null ? null : report.words[Number(state.word_at)];
      if (at) open(at);
    } catch (error) {
      put(surprise, failure(error));
    }
  });

  function column(one, k, most) {
    const says = `${shown(one.word)}: ${number(one.bits, 1)} bits${one.known ? "" : ", an unknown word"}`;
    const choosing = () => {
      set({ word_at: k });
      open(one);
    };
    return h(
      "button",
      { type: "button", "aria-label": says, onclick: choosing },
      h("i", { style: { height: `${4 + (TALLEST * (one.bits ?? most)) / most}px` } }),
      h("span", { class: one.known ? "word" : "word unknown" }, shown(one.word)),
      h("small", {}, number(one.bits, 1)),
    );
  }

  function open(one) {
    const rank = `number ${one.rank} among the words that could stand here`;
    const states = one.states.map((other) => [`state ${other.state}`, other.p]);
    put(
      detail,
      h("h3", {}, shown(one.word)),
      h("p", { class: "facts" }, one.known ? rank : "an unknown word"),
      h("p", { class: "small" }, "Likeliest here"),
      bars(one.instead.map((other) => [shown(other.word), other.p])),
      states.length ? [h("p", { class: "small" }, "States after it"), bars(states, { most: 1 })] : null,
    );
  }

  // -- classes --

  const showClasses = latest(async () => {
    try {
      const found = await ask("lm/classes", { model: known.name, top: 12, word: word.value.trim() || null });
      const none = h("p", { class: "none" }, "This model has no hidden states.");
      put(classes, found.states.length ? h("div", { class: "cards" }, found.states.map(classCard)) : none);
    } catch (error) {
      put(classes, failure(error));
    }
  });

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

  function showAll() {
    about.textContent = known.about;
    for (const place of [next, surprise, classes]) put(place, busy("Loading the model"));
    showNext();
    showSurprise();
    showClasses();
  }
  context.addEventListener("input", () => {
    set({ context: context.value });
    showNext();
  });
  sentence.addEventListener("input", () => {
    set({ s: sentence.value, word_at: null, line: null });
    showSurprise();
  });
  word.addEventListener("input", () => {
    set({ word: word.value || null });
    showClasses();
  });
  showAll();
}
