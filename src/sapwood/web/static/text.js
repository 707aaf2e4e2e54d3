// Language model: what comes next, what the states stand for, how surprising each word is.

import { ask } from "/static/api.js";
import { bars, busy, choose, failure, field, h, latest, number, percent, put } from "/static/dom.js";

export function mount(root, { state, set, models }) {
  const usable = models.filter((model) => model.kind === "text");
  if (!usable.length) {
    root.append(
      h("h1", {}, "Language model"),
      failure({
        message: "No language model here.",
        hint: "Start the server with one: sapwood serve MODEL, where MODEL is a file of `sapwood lm train`",
      }),
    );
    return;
  }
  let model = (usable.find((one) => one.name === state.model) ?? usable[0]).name;
  const context = h("input", {
    type: "text",
    value: state.context ?? "they saw the",
    dir: "auto",
    spellcheck: false,
  });
  const sentence = h("textarea", {
    rows: 2,
    dir: "auto",
    spellcheck: false,
    "aria-label": "A sentence, words apart by blanks",
  });
  sentence.value = state.s ?? "the kind king gave a song to every cook .";
  const word = h("input", { type: "search", value: state.word ?? "", placeholder: "king", dir: "auto" });
  const next = h("div", {}),
    surprise = h("div", {}),
    classes = h("div", {}),
    detail = h("div", { "aria-live": "polite" });
  root.append(
    h("h1", {}, "Language model"),
    h(
      "p",
      { class: "lead" },
      "Next words, the hidden states as classes of words, and a sentence word by word: the taller, the more surprising.",
    ),
    h(
      "div",
      { class: "bar" },
      field(
        "Model",
        choose(
          usable.map((one) => [one.name, one.name]),
          model,
          (name) => {
            model = name;
            set({ model });
            all();
          },
        ),
      ),
    ),
    h(
      "div",
      { class: "split" },
      h(
        "section",
        { class: "card", "aria-label": "Surprise" },
        h("header", {}, h("h2", {}, "Word by word")),
        sentence,
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

  const showNext = latest(async () => {
    try {
      const found = await ask("lm/next", { model, context: context.value, top: 10 });
      put(next, bars(found.next.map((one) => [shown(one.word), one.p])));
    } catch (error) {
      put(next, failure(error));
    }
  });
  const shown = (text) => (text === "</s>" ? "(end)" : text);

  const showSurprise = latest(async () => {
    put(detail);
    if (!sentence.value.trim()) {
      put(surprise, h("p", { class: "none" }, "Waiting for a sentence."));
      return;
    }
    try {
      const report = await ask("lm/surprise", { model, sentence: sentence.value });
      const most = Math.max(...report.words.map((one) => one.bits ?? 30), 1);
      put(
        surprise,
        h(
          "ol",
          { class: "surprise", dir: "auto" },
          report.words.map((one, k) =>
            h(
              "li",
              {},
              h(
                "button",
                {
                  type: "button",
                  "aria-label": `${shown(one.word)}: ${number(one.bits, 1)} bits`,
                  onclick: () => {
                    set({ word_at: k });
                    open(one);
                  },
                },
                h("i", { style: { height: `${4 + (90 * (one.bits ?? most)) / most}px` } }),
                h("span", { class: "word" }, shown(one.word)),
                h("small", {}, number(one.bits, 1)),
              ),
            ),
          ),
        ),
        h(
          "p",
          { class: "facts" },
          h("span", {}, h("b", {}, number(report.bits, 1)), " bits"),
          h("span", {}, "perplexity ", h("b", {}, number(report.perplexity, 1))),
        ),
      );
      if (state.word_at !== undefined && report.words[Number(state.word_at)])
        open(report.words[Number(state.word_at)]);
    } catch (error) {
      put(surprise, failure(error));
    }
  });

  function open(one) {
    put(
      detail,
      h("h3", {}, shown(one.word)),
      h(
        "p",
        { class: "facts" },
        one.known ? `number ${one.rank} among the words that could stand here` : "an unknown word",
      ),
      h("p", { class: "small" }, "Likelier here"),
      bars(one.instead.map((other) => [shown(other.word), other.p])),
      one.states.length
        ? [
            h("p", { class: "small" }, "States after it"),
            bars(
              one.states.map((other) => [`state ${other.state}`, other.p]),
              { most: 1 },
            ),
          ]
        : null,
    );
  }

  const showClasses = latest(async () => {
    try {
      const found = await ask("lm/classes", { model, top: 12, word: word.value.trim() || null });
      put(
        classes,
        found.states.length
          ? h(
              "div",
              { class: "cards" },
              found.states.map((one) =>
                h(
                  "article",
                  { class: "card" },
                  h("h3", {}, `State ${one.state}`, h("small", {}, percent(one.share))),
                  h("div", { class: "track" }, h("i", { style: { width: `${100 * one.share}%` } })),
                  h("p", { class: "small" }, "After"),
                  h("p", { class: "words", dir: "auto" }, one.after.join(", ")),
                  h("p", { class: "small" }, "Then"),
                  h("p", { class: "words", dir: "auto" }, one.then.join(", ")),
                ),
              ),
            )
          : h("p", { class: "none" }, "This model has no hidden states."),
      );
    } catch (error) {
      put(classes, failure(error));
    }
  });

  function all() {
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
    set({ s: sentence.value, word_at: null });
    showSurprise();
  });
  word.addEventListener("input", () => {
    set({ word: word.value || null });
    showClasses();
  });
  all();
}
