// States: the rules, words and contexts of each hidden state of a label.

import { ask } from "/static/api.js";
import { bars, busy, choose, failure, field, h, modelPicker, percent, put } from "/static/dom.js";
import { linkTo } from "/static/main.js";
import {
  addExamples,
  directionCards,
  meaning,
  namesOf,
  singularValues,
  stateCard,
  symbolHeader,
} from "/static/state-cards.js";
import { isInternal, legend } from "/static/symbols.js";

const MOST = 60; // labels that are offered before somebody filters them
const NO_TREES =
  "Examples are shown where the server has the training trees: sapwood serve MODEL --trees train.mrg";

// Only what a method learnt is called learnt; the bundled grammar was written by a person.
export function leadOf(method, isHandWritten) {
  const start = "A label such as NP hides several kinds of constituent. ";
  const shown = "what they become, where they stand, and examples.";
  if (isHandWritten)
    return `${start}This grammar is hand-written: here are the kinds that its author gave it, ${shown}`;
  if (method === "pcfg" || method === "crf")
    return `${start}This model (${method}) does not tell them apart.`;
  if (!method) return `${start}Here are the kinds that this model has, ${shown}`;
  return `${start}Here are the kinds that the method ${method} learnt from trees, ${shown}`;
}

export function mount(root, { state, set, models }) {
  const usable = models.filter((model) => model.kind === "trees");
  if (!usable.length) {
    const hint = "Start the server with one: sapwood serve MODEL";
    root.append(failure({ message: "No grammar here has states.", hint }));
    return;
  }
  new StatesView(root, { state, set, models: usable }).start();
}

// The state of the view. `state` and `set` are those of the address; `page` holds the elements.
class StatesView {
  constructor(root, { state, set, models }) {
    Object.assign(this, { state, set, models });
    this.model = models.find((model) => model.name === state.model) ?? models[0];
    this.turn = 0; // counts the labels that were on show, so that late answers for old ones are dropped
    this.labels = []; // of the model, without internal ones unless they are wanted
    this.page = buildStatesPage(root, this);
  }

  // The member of an ensemble that is shown; null where the model is a single grammar.
  get member() {
    return this.state.member ? Number(this.state.member) : null;
  }

  get names() {
    return namesOf(this.page.internal.checked);
  }

  // Values of the address of a state of a symbol.
  addressOf(symbol, state) {
    return { model: this.model.name, member: this.state.member, label: symbol, state };
  }

  start() {
    const { filter, word } = this.page;
    filter.addEventListener("input", () => this.showLabels());
    filter.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      const [best] = matching(this.labels, filter.value);
      if (best) this.showLabel(best.symbol);
    });
    word.addEventListener("input", () => this.searchWord());
    this.load();
  }

  chooseModel(name) {
    this.model = this.models.find((model) => model.name === name);
    this.set({ model: name, label: null, member: null, state: null });
    this.load();
  }

  showInternal(isWanted) {
    this.set({ internal: isWanted ? 1 : null });
    if (!isWanted && isInternal(this.state.label ?? "")) this.state.label = null;
    this.load();
  }

  async load() {
    const { about, labels, cards, lead, memberPlace, internal, word } = this.page;
    const turn = ++this.turn;
    about.textContent = this.model.about;
    put(labels, busy("Loading the model"));
    put(cards);
    try {
      const answer = await ask("labels", { model: this.model.name, member: this.member });
      if (turn !== this.turn) return;
      lead.textContent = leadOf(answer.method, this.model.is_hand_written);
      this.labels = answer.labels.filter((label) => internal.checked || !isInternal(label.symbol));
      put(memberPlace, answer.members.length ? this.memberField(answer) : null);
      this.showLabels();
      this.showLabel(this.state.label ?? this.labels[0].symbol, false);
      if (word.value) this.searchWord();
    } catch (error) {
      if (turn === this.turn) put(labels, failure(error));
    }
  }

  memberField({ members, member }) {
    const options = members.map((one) => [String(one.member), `${one.member} ${one.method ?? ""}`]);
    const onchange = (value) => {
      this.set({ member: value, state: null });
      this.load();
    };
    return field("Member", choose(options, String(member), onchange));
  }

  // -- labels --

  showLabels() {
    const rows = matching(this.labels, this.page.filter.value);
    const chips = rows
      .slice(0, MOST)
      .map((label) => labelChip(label, this.state.label, () => this.showLabel(label.symbol)));
    const n_more = rows.length - MOST;
    const says = !rows.length
      ? "no label has these letters"
      : n_more > 0
        ? `and ${n_more} more: type some letters`
        : "";
    put(this.page.labels, ...chips, says ? h("span", { class: "facts" }, says) : null);
  }

  // isNew: whether the label was chosen just now, so that no state of it is named in the address.
  async showLabel(label, isNew = true) {
    const { labels, cards } = this.page;
    const turn = ++this.turn;
    this.set({ label, model: this.model.name, ...(isNew ? { state: null } : {}) });
    for (const chip of labels.querySelectorAll("button"))
      chip.setAttribute("aria-pressed", String(chip.firstChild.textContent === label));
    put(cards, busy(`Looking at ${label}`));
    const request = { model: this.model.name, label, member: this.member };
    const hasTrees = this.model.has_trees;
    try {
      const { symbols } = await ask("states", request);
      if (turn !== this.turn) return;
      const symbolCards = symbols.map((symbol) => this.symbolCard(symbol));
      put(cards, ...symbolCards, hasTrees ? null : h("p", { class: "none" }, NO_TREES));
      this.reveal();
      if (!hasTrees || !symbols.some((symbol) => symbol.states > 1)) return;
      const examples = await ask("examples", request);
      if (turn !== this.turn) return;
      const where = this.model.is_hand_written ? "the trees drawn from it" : "the training trees";
      addExamples(cards, examples, where);
      this.reveal();
    } catch (error) {
      if (turn === this.turn) put(cards, failure(error));
    }
  }

  symbolCard(symbol) {
    const { names } = this;
    const states = symbol.rows.slice(1).sort((a, b) => b.share - a.share);
    const card = (row) => stateCard(symbol, row, names, this.nearestStates(symbol, row));
    const single = () =>
      h("div", { class: "card" }, h("h3", {}, "A single state"), meaning(symbol.rows[0], names));
    const body = symbol.dimensions
      ? directionCards(symbol, names)
      : states.length
        ? h("div", { class: "cards" }, states.map(card))
        : single();
    const parts = [symbolHeader(symbol, names), singularValues(symbol), h("p", {}), body];
    return h("section", { "aria-label": symbol.symbol }, parts);
  }

  // Scrolls to the state that the address names.
  reveal() {
    const { label, state } = this.state;
    if (state === undefined || state === null) return;
    const { cards } = this.page;
    const card =
      cards.querySelector(`[data-state="${CSS.escape(`${label} ${state}`)}"]`) ??
      cards.querySelector(`[data-number="${CSS.escape(String(state))}"]`) ??
      cards.querySelector(`[data-twins~="${CSS.escape(String(state))}"]`);
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  }

  // A link that is replaced by the nearest states of other labels when it is clicked.
  nearestStates(symbol, row) {
    const place = h("div", {});
    const link = (one) => {
      const name = `${this.names.symbol(one.symbol)} ${one.state}`;
      return [name, one.overlap, linkTo("states", this.addressOf(one.symbol, one.state), name)];
    };
    const open = async () => {
      more.remove();
      try {
        const of = { model: this.model.name, symbol: symbol.symbol, state: row.state, member: this.member };
        const card = await ask("state", { ...of, nearest: true });
        place.append(
          h("p", { class: "small" }, "Nearest states of other labels"),
          card.nearest.length
            ? bars(card.nearest.map(link), { most: 1 })
            : h("p", { class: "none" }, "None has anything in common."),
        );
      } catch (error) {
        place.append(failure(error));
      }
    };
    const more = h("button", { type: "button", class: "link", onclick: open }, "Nearest states");
    return [place, more];
  }

  // -- the states of a word --

  async searchWord() {
    const { word, found } = this.page;
    const text = word.value.trim();
    this.set({ word: text || null });
    if (!text) {
      put(found);
      return;
    }
    try {
      const answer = await ask("word", { model: this.model.name, word: text, member: this.member });
      put(found, this.wordCard(answer, text), h("p", {}));
    } catch (error) {
      put(found, failure(error));
    }
  }

  wordCard(answer, text) {
    const row = (one) => {
      const address = { ...this.addressOf(one.symbol, one.state), word: text };
      const name = one.state === null ? one.symbol : `${one.symbol}, state ${one.state}`;
      return [one.symbol, one.probability, linkTo("states", address, name)];
    };
    const unknown = `The model does not know this word; it counts as ${answer.class}.`;
    return h(
      "section",
      { class: "card", "aria-label": "States of the word" },
      h("h2", {}, answer.word),
      answer.known ? null : h("p", { class: "none" }, unknown),
      bars(answer.states.slice(0, 8).map(row), { most: 1 }),
    );
  }
}

function buildStatesPage(root, view) {
  const { state } = view;
  const lead = h("p", { class: "lead" });
  const about = h("p", { class: "facts" });
  const memberPlace = h("span", {});
  const labels = h("div", { class: "chips", role: "group", "aria-label": "Labels" });
  const filter = h("input", {
    type: "search",
    placeholder: "NP",
    "aria-label": "Label: type and press Enter",
  });
  const word = h("input", { type: "search", value: state.word ?? "", placeholder: "saw", dir: "auto" });
  const internal = h("input", {
    type: "checkbox",
    checked: Boolean(state.internal) || isInternal(state.label ?? ""),
    onchange: () => view.showInternal(internal.checked),
  });
  const found = h("div", {}); // the states of the word that was searched
  const cards = h("div", { class: "stack" });
  root.append(
    h("h1", {}, "States"),
    lead,
    h(
      "div",
      { class: "bar" },
      field(
        "Model",
        modelPicker(view.models, view.model, (name) => view.chooseModel(name)),
      ),
      memberPlace,
      field("Which state is this word in?", word),
      field("Label", filter),
      h("label", { class: "check" }, internal, "Show internal symbols"),
    ),
    about,
    found,
    labels,
    legend(),
    cards,
  );
  return { lead, about, memberPlace, labels, filter, word, internal, found, cards };
}

// The labels that contain the letters, an exact match first.
function matching(labels, letters) {
  const wanted = letters.trim().toLowerCase();
  const rows = labels.filter((label) => label.symbol.toLowerCase().includes(wanted));
  const isExact = (label) => label.symbol.toLowerCase() === wanted;
  return [...rows.filter(isExact), ...rows.filter((label) => !isExact(label))];
}

function labelChip(label, chosen, onclick) {
  return h(
    "button",
    {
      type: "button",
      class: "chip",
      "aria-pressed": String(label.symbol === chosen),
      title: `${percent(label.share)} of all nodes`,
      onclick,
    },
    label.symbol,
    " ",
    h("small", {}, String(label.states)),
  );
}
