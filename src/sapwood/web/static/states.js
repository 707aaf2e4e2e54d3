// States: what each hidden state of a label stands for.

import { ask } from "/static/api.js";
import { bars, busy, choose, failure, field, h, percent, put } from "/static/dom.js";
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
  let known = usable.find((one) => one.name === state.model) ?? usable[0];
  let turn = 0; // of the label on show
  let all = []; // labels
  const member = () => (state.member ? Number(state.member) : null);
  const names = () => namesOf(internal.checked);
  const where = () => (known.is_hand_written ? "the trees drawn from it" : "the training trees");

  const picker = choose(
    usable.map((one) => [one.name, one.name]),
    known.name,
    (name) => {
      known = usable.find((one) => one.name === name);
      set({ model: name, label: null, member: null, state: null });
      load();
    },
  );
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
    onchange: () => {
      set({ internal: internal.checked ? 1 : null });
      if (!internal.checked && isInternal(state.label ?? "")) state.label = null;
      load();
    },
  });
  const found = h("div", {});
  const cards = h("div", { class: "stack" });
  root.append(
    h("h1", {}, "States"),
    lead,
    h(
      "div",
      { class: "bar" },
      field("Model", picker),
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

  async function load() {
    const mine = ++turn;
    about.textContent = known.about;
    put(labels, busy("Loading the model"));
    put(cards);
    try {
      const told = await ask("labels", { model: known.name, member: member() });
      if (mine !== turn) return;
      lead.textContent = leadOf(told.method, known.is_hand_written);
      all = told.labels.filter((label) => internal.checked || !isInternal(label.symbol));
      put(memberPlace, told.members.length ? memberField(told) : null);
      showLabels();
      showLabel(state.label ?? all[0].symbol, false);
      if (word.value) search();
    } catch (error) {
      if (mine === turn) put(labels, failure(error));
    }
  }

  function memberField(told) {
    const options = told.members.map((one) => [String(one.member), `${one.member} ${one.method ?? ""}`]);
    const onchange = (value) => {
      set({ member: value, state: null });
      load();
    };
    return field("Member", choose(options, String(told.member), onchange));
  }

  // -- labels --

  function matching() {
    const wanted = filter.value.trim().toLowerCase();
    const rows = all.filter((label) => label.symbol.toLowerCase().includes(wanted));
    const isExact = (label) => label.symbol.toLowerCase() === wanted;
    return [...rows.filter(isExact), ...rows.filter((label) => !isExact(label))];
  }

  function showLabels() {
    const rows = matching();
    const chip = (label) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(label.symbol === state.label),
          title: `${percent(label.share)} of all nodes`,
          onclick: () => showLabel(label.symbol),
        },
        label.symbol,
        " ",
        h("small", {}, String(label.states)),
      );
    const left = rows.length - MOST;
    const says = !rows.length
      ? "no label has these letters"
      : left > 0
        ? `and ${left} more: type some letters`
        : "";
    put(labels, ...rows.slice(0, MOST).map(chip), says ? h("span", { class: "facts" }, says) : null);
  }

  async function showLabel(label, isNew = true) {
    const mine = ++turn;
    set({ label, model: known.name, ...(isNew ? { state: null } : {}) });
    for (const chip of labels.querySelectorAll("button"))
      chip.setAttribute("aria-pressed", String(chip.firstChild.textContent === label));
    put(cards, busy(`Looking at ${label}`));
    const question = { model: known.name, label, member: member() };
    try {
      const { symbols } = await ask("states", question);
      if (mine !== turn) return;
      put(cards, ...symbols.map(symbolCard), known.has_trees ? null : h("p", { class: "none" }, NO_TREES));
      reveal();
      if (!known.has_trees || !symbols.some((symbol) => symbol.states > 1)) return;
      const shown = await ask("examples", question);
      if (mine !== turn) return;
      addExamples(cards, shown, where());
      reveal();
    } catch (error) {
      if (mine === turn) put(cards, failure(error));
    }
  }

  function symbolCard(symbol) {
    const states = symbol.rows.slice(1).sort((a, b) => b.share - a.share);
    const card = (row) => stateCard(symbol, row, names(), nearest(symbol, row));
    const single = () =>
      h("div", { class: "card" }, h("h3", {}, "A single state"), meaning(symbol.rows[0], names()));
    const body = symbol.dimensions
      ? directionCards(symbol, names())
      : states.length
        ? h("div", { class: "cards" }, states.map(card))
        : single();
    const parts = [symbolHeader(symbol, names()), singularValues(symbol), h("p", {}), body];
    return h("section", { "aria-label": symbol.symbol }, parts);
  }

  // The state that the address names.
  function reveal() {
    if (state.state === undefined || state.state === null) return;
    const card =
      cards.querySelector(`[data-state="${CSS.escape(`${state.label} ${state.state}`)}"]`) ??
      cards.querySelector(`[data-number="${CSS.escape(String(state.state))}"]`);
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  }

  function nearest(symbol, row) {
    const place = h("div", {});
    const link = (one) => {
      const address = { model: known.name, member: state.member, label: one.symbol, state: one.state };
      const name = `${names().symbol(one.symbol)} ${one.state}`;
      return [name, one.overlap, linkTo("states", address, name)];
    };
    const open = async () => {
      more.remove();
      try {
        const of = { model: known.name, symbol: symbol.symbol, state: row.state, member: member() };
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

  async function search() {
    const text = word.value.trim();
    set({ word: text || null });
    if (!text) {
      put(found);
      return;
    }
    try {
      const answer = await ask("word", { model: known.name, word: text, member: member() });
      put(found, wordCard(answer, text), h("p", {}));
    } catch (error) {
      put(found, failure(error));
    }
  }

  function wordCard(answer, text) {
    const row = (one) => {
      const address = {
        model: known.name,
        member: state.member,
        label: one.symbol,
        state: one.state,
        word: text,
      };
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

  filter.addEventListener("input", showLabels);
  filter.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const [best] = matching();
    if (best) showLabel(best.symbol);
  });
  word.addEventListener("input", search);
  load();
}
