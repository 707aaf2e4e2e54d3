// States: what each hidden state of a label stands for.

import { ask } from "/static/api.js";
import { bars, busy, choose, failure, field, h, percent, plural, put } from "/static/dom.js";
import { linkTo } from "/static/main.js";
import { columns } from "/static/plots.js";

export function mount(root, { state, set, models }) {
  const usable = models.filter((model) => model.kind === "trees");
  if (!usable.length) {
    root.append(
      failure({
        message: "No grammar here has states.",
        hint: "Start the server with one: sapwood serve MODEL",
      }),
    );
    return;
  }
  let model = (usable.find((one) => one.name === state.model) ?? usable[0]).name,
    turn = 0;
  const picker = choose(
    usable.map((one) => [one.name, one.name]),
    model,
    (name) => {
      model = name;
      set({ model, label: null, member: null, state: null });
      load();
    },
  );
  const memberPlace = h("span", {});
  const labels = h("div", { class: "chips", role: "group", "aria-label": "Labels" });
  const filter = h("input", { type: "search", placeholder: "NP", "aria-label": "Filter labels" });
  const word = h("input", { type: "search", value: state.word ?? "", placeholder: "saw", dir: "auto" });
  const found = h("div", {});
  const cards = h("div", { class: "stack" });
  root.append(
    h("h1", {}, "States"),
    h(
      "p",
      { class: "lead" },
      "A label such as NP hides several kinds of phrase. Here are the kinds that were learnt: what they become, where they stand, and where they are in the trees.",
    ),
    h(
      "div",
      { class: "bar" },
      field("Model", picker),
      memberPlace,
      field("Which state is this word in?", word),
      field("Label", filter),
    ),
    found,
    labels,
    h("p", {}),
    cards,
  );

  let all = [];
  async function load() {
    const mine = ++turn;
    put(labels, busy("Loading the model"));
    put(cards);
    try {
      const member = state.member ? Number(state.member) : null;
      const about = await ask("labels", { model, member });
      if (mine !== turn) return;
      all = about.labels;
      put(
        memberPlace,
        ...(about.members.length
          ? [
              field(
                "Member",
                choose(
                  about.members.map((one) => [String(one.member), `${one.member} ${one.method ?? ""}`]),
                  String(about.member),
                  (value) => {
                    set({ member: value, state: null });
                    load();
                  },
                ),
              ),
            ]
          : []),
      );
      if (!about.labels.some((label) => label.states > 1))
        cards.append(
          h(
            "p",
            { class: "none" },
            "This grammar has one state a label: nothing is hidden. Choose another model or member.",
          ),
        );
      showLabels();
      showLabel(state.label ?? all[0].symbol, false);
      if (word.value) search();
    } catch (error) {
      if (mine === turn) put(labels, failure(error));
    }
  }

  function showLabels() {
    const wanted = filter.value.trim().toLowerCase();
    const matching = all.filter((label) => !wanted || label.symbol.toLowerCase().includes(wanted));
    const rows = matching.slice(0, wanted ? 200 : 60);
    put(
      labels,
      ...rows.map((label) =>
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
        ),
      ),
    );
    if (matching.length > rows.length)
      labels.append(h("span", { class: "facts" }, `and ${matching.length - rows.length} more: filter`));
  }

  async function showLabel(label, isNew = true) {
    const mine = ++turn;
    set({ label, model, ...(isNew ? { state: null } : {}) });
    for (const chip of labels.querySelectorAll("button"))
      chip.setAttribute("aria-pressed", String(chip.firstChild.textContent === label));
    put(cards, busy(`Looking at ${label}`));
    const member = state.member ? Number(state.member) : null;
    try {
      const { symbols } = await ask("states", { model, label, member });
      if (mine !== turn) return;
      put(cards, ...symbols.map((symbol) => symbolCard(symbol, label)));
      reveal();
      const hasTrees = models.find((one) => one.name === model)?.has_trees;
      if (hasTrees && symbols.some((symbol) => symbol.rows.length > 1)) {
        const shown = await ask("examples", { model, label, member });
        if (mine === turn) addExamples(shown);
      } else if (!hasTrees)
        cards.append(
          h(
            "p",
            { class: "none" },
            "Examples are shown where the server has the training trees: sapwood serve MODEL --trees train.mrg",
          ),
        );
    } catch (error) {
      if (mine === turn) put(cards, failure(error));
    }
  }

  function reveal() {
    if (state.state === undefined || state.state === null) return;
    const card =
      cards.querySelector(`[data-state="${CSS.escape(`${state.label} ${state.state}`)}"]`) ??
      cards.querySelector(`[data-number="${CSS.escape(String(state.state))}"]`);
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  }

  const list = (row, kind) => (row[`${kind}s`] ?? []).slice(0, kind === "word" ? 10 : 5);
  function meaning(row) {
    const words = list(row, "word"),
      rules = list(row, "rule"),
      contexts = list(row, "context");
    return [
      words.length
        ? [
            h("p", { class: "small" }, "Words"),
            h(
              "p",
              { class: "words", dir: "auto" },
              words.map((one, k) => [k ? ", " : "", h("b", {}, one.word)]),
            ),
          ]
        : null,
      rules.length
        ? [
            h("p", { class: "small" }, "Becomes"),
            bars(
              rules.map((one) => [one.rule, one.probability]),
              { most: 1 },
            ),
          ]
        : null,
      contexts.length
        ? [
            h("p", { class: "small" }, "Stands in"),
            bars(
              contexts.map((one) => [one.context, one.probability]),
              { most: 1 },
            ),
          ]
        : null,
    ];
  }

  function symbolCard(symbol) {
    const states = symbol.rows.slice(1).sort((a, b) => b.share - a.share);
    const body = symbol.dimensions
      ? dimensions(symbol)
      : states.length
        ? h(
            "div",
            { class: "cards" },
            states.map((row) => stateCard(symbol, row)),
          )
        : h("div", { class: "card" }, h("h3", {}, "A single state"), meaning(symbol.rows[0]));
    return h(
      "section",
      { "aria-label": symbol.symbol },
      h(
        "header",
        { class: "bar" },
        h("h2", {}, symbol.symbol),
        h(
          "p",
          { class: "facts" },
          `${symbol.kind}, ${plural(symbol.states, "state")}, ${percent(symbol.share)} of all nodes`,
        ),
      ),
      symbol.singular_values
        ? h(
            "div",
            { class: "card" },
            h(
              "header",
              {},
              h("h3", {}, "Singular values"),
              h("span", { class: "facts" }, `the first ${symbol.states} are states`),
            ),
            columns(symbol.singular_values, {
              title: `Singular values of ${symbol.symbol}`,
              kept: symbol.states,
            }),
          )
        : null,
      h("p", {}),
      body,
    );
  }

  function stateCard(symbol, row) {
    const near = h("div", {});
    const more = h(
      "button",
      {
        type: "button",
        class: "link",
        onclick: async () => {
          more.remove();
          try {
            const card = await ask("state", {
              model,
              symbol: symbol.symbol,
              state: row.state,
              nearest: true,
              member: state.member ? Number(state.member) : null,
            });
            near.append(
              h("p", { class: "small" }, "Nearest states of other labels"),
              card.nearest.length
                ? bars(
                    card.nearest.map((one) => [
                      `${one.symbol} ${one.state}`,
                      one.overlap,
                      linkTo(
                        "states",
                        { model, member: state.member, label: one.symbol, state: one.state },
                        `${one.symbol} ${one.state}`,
                      ),
                    ]),
                    { most: 1 },
                  )
                : h("p", { class: "none" }, "None has anything in common."),
            );
          } catch (error) {
            near.append(failure(error));
          }
        },
      },
      "Nearest states",
    );
    return h(
      "article",
      {
        class: "card",
        tabindex: "-1",
        "data-state": `${symbol.symbol} ${row.state}`,
        "data-number": row.state,
      },
      h("h3", {}, `State ${row.state}`, h("small", {}, percent(row.share))),
      h(
        "div",
        { class: "track", role: "img", "aria-label": `Share ${percent(row.share)}` },
        h("i", { style: { width: `${100 * row.share}%` } }),
      ),
      h("div", { class: "heads" }),
      meaning(row),
      h("div", { class: "seen" }),
      near,
      more,
    );
  }

  function dimensions(symbol) {
    const side = (name, part) =>
      h(
        "div",
        {},
        h("p", { class: "small" }, name),
        h(
          "p",
          { class: "words", dir: "auto" },
          [
            ...list(part, "word").map((one) => one.word),
            ...list(part, "rule").map((one) => one.rule),
            ...list(part, "context")
              .slice(0, 3)
              .map((one) => one.context),
          ].map((text) => h("div", {}, text)),
        ),
      );
    return [
      h(
        "p",
        { class: "lead" },
        "A spectral model's states are directions, known up to a change of basis: what lies furthest to either side of each is shown.",
      ),
      h(
        "div",
        { class: "cards" },
        symbol.dimensions.map((one) =>
          h(
            "article",
            { class: "card" },
            h(
              "h3",
              {},
              `Direction ${one.dimension}`,
              h("small", {}, one.singular_value === null ? "" : one.singular_value.toFixed(3)),
            ),
            side("One side", one.positive),
            side("Other side", one.negative),
          ),
        ),
      ),
    ];
  }

  function addExamples(shown) {
    for (const symbol of shown.symbols)
      for (const row of symbol.rows) {
        const card = cards.querySelector(`[data-state="${CSS.escape(`${symbol.symbol} ${row.state}`)}"]`);
        if (!card || !row.examples.length) continue;
        if (!card.querySelector(".words") && row.head_words.length)
          card.querySelector(".heads").append(
            h("p", { class: "small" }, "Heads"),
            h(
              "p",
              { class: "words", dir: "auto" },
              row.head_words.map((one, k) => [k ? ", " : "", h("b", {}, one)]),
            ),
          );
        card.querySelector(".seen").append(
          h(
            "p",
            { class: "small" },
            `In the training trees, ${row.count.toLocaleString("en")} of ${plural(shown.nodes, "node")} looked at`,
          ),
          h(
            "ul",
            { class: "examples", dir: "auto" },
            row.examples
              .slice(0, 4)
              .map((one) =>
                h(
                  "li",
                  {},
                  `${one.words.slice(0, one.start).join(" ")} `,
                  h("mark", {}, one.words.slice(one.start, one.end).join(" ")),
                  ` ${one.words.slice(one.end).join(" ")}`,
                ),
              ),
          ),
        );
      }
    reveal();
  }

  async function search() {
    const text = word.value.trim();
    set({ word: text || null });
    if (!text) {
      put(found);
      return;
    }
    try {
      const answer = await ask("word", {
        model,
        word: text,
        member: state.member ? Number(state.member) : null,
      });
      put(
        found,
        h(
          "section",
          { class: "card", "aria-label": "States of the word" },
          h("h2", {}, answer.word),
          answer.known
            ? null
            : h("p", { class: "none" }, `Not in the training trees; it counts as ${answer.class}.`),
          bars(
            answer.states
              .slice(0, 8)
              .map((one) => [
                one.symbol,
                one.probability,
                linkTo(
                  "states",
                  { model, member: state.member, label: one.symbol, state: one.state, word: text },
                  one.state === null ? one.symbol : `${one.symbol}, state ${one.state}`,
                ),
              ]),
            { most: 1 },
          ),
        ),
        h("p", {}),
      );
    } catch (error) {
      put(found, failure(error));
    }
  }
  filter.addEventListener("input", showLabels);
  word.addEventListener("input", search);
  load();
}
