// Identify: which families of models are identifiable from which moments; no data is needed.

import { ask } from "/static/api.js";
import { busy, failure, field, h, latest, number, plural, put } from "/static/dom.js";
import { sidePanel } from "/static/panel.js";

const LEAD =
  "Some models cannot be learnt from some statistics, however much data there is. Each cell counts the dimensions " +
  "in which the parameters could change without any change in what is seen; ✓ means none: the model can be learnt.";

// How each family generates the children of a node.
const FAMILIES = {
  pcfg: "hidden states; both children drawn together",
  "pcfg-i": "hidden states; left and right child independent, a table for each",
  "pcfg-ie": "hidden states; left and right child independent, one table for both",
  "dep-i": "dependencies between words; left and right arguments, a table for each",
  "dep-ie": "dependencies between words; one table for both sides",
  "dep-ies": "dependencies between words; one table, and the root follows from it",
};

// The observations of each sentence.
const MOMENTS = {
  12: "words 1 and 2",
  pairs: "every two words",
  "123e1": "words 1 and 2, where word 3 is one chosen word",
  123: "words 1, 2 and 3",
  "triples-e1": "every two words, where a third is one chosen word",
  triples: "every three words",
  all: "whole sentences",
};

// The options of the command line, in the words of this page.
const plainHint = (hint) =>
  hint
    .replace(/--moments (\S+)/, (_, name) => `${seen(name)} seen`)
    .replace(/ --length (\d+)/, (_, length) => `, in sentences of ${length} words`);

const seen = (name) => MOMENTS[name] ?? name;

// Least, most and usual value, and what the number is of.
const SIZES = {
  words: [2, 6, 3, "Words in the vocabulary"],
  states: [2, 5, 2, "Hidden states"],
  length: [2, 6, 4, "Words in a sentence"],
};

export function mount(root, { state, set }) {
  const view = new IdentifyView(root, { state, set });
  view.run();
  return () => view.panel.close();
}

// The state of the view. `state` and `set` are those of the address.
class IdentifyView {
  constructor(root, { state, set }) {
    Object.assign(this, { state, set });
    this.inputs = Object.fromEntries(Object.keys(SIZES).map((name) => [name, this.sizeInput(name)]));
    this.table = h("div", { class: "scroll" });
    this.panel = sidePanel("Why", () => set({ family: null, moments: null }));
    this.panel.show(
      h("h2", {}, "Why"),
      h("p", { class: "none" }, "Open a cell to see what cannot be learnt, and what would help."),
    );
    this.run = latest(() => this.showTable());
    const fields = Object.entries(this.inputs).map(([name, input]) => field(SIZES[name][3], input));
    root.append(
      h("h1", {}, "Identify"),
      h("p", { class: "lead" }, LEAD),
      h("div", { class: "bar" }, fields),
      h("div", { class: "split" }, h("div", { class: "card" }, this.table), this.panel.element),
    );
  }

  sizeInput(name) {
    const [least, most, usual] = SIZES[name];
    const input = h("input", {
      type: "number",
      min: String(least),
      max: String(most),
      value: this.state[name] ?? String(usual),
      oninput: () => {
        this.set({ [name]: input.value });
        this.run();
      },
    });
    return input;
  }

  async showTable() {
    const { inputs, table, state } = this;
    const size = Object.fromEntries(
      Object.entries(inputs).map(([name, input]) => [name, Number(input.value)]),
    );
    const wrong = sizeProblem(size);
    if (wrong) {
      put(table, failure({ message: wrong, hint: "`sapwood identify` takes larger numbers." }));
      return;
    }
    put(table, busy("Ranks are being computed, exactly"));
    try {
      const { rows } = await ask("identify/table", size);
      const choosing = (row, button) => {
        this.set({ family: row.family, moments: row.moments });
        this.open(row, size, button);
      };
      put(table, deficitTable(rows, size, choosing));
      const wanted = rows.find((row) => row.family === state.family && row.moments === state.moments);
      if (wanted) this.open(wanted, size);
    } catch (error) {
      put(table, failure(error));
    }
  }

  // anchor: the cell that must stay in sight beside the panel.
  async open(row, size, anchor = null) {
    const { family, moments } = row;
    const title = h(
      "div",
      { class: "part" },
      h("h2", {}, family),
      h("p", { class: "quote" }, `from ${seen(moments)}`),
    );
    const show = (...parts) => {
      this.panel.show(title, ...parts);
      this.panel.open(anchor);
    };
    const { words, length } = size;
    if (row.deficit === null) {
      const text = `Sentences of ${length} words are too short: ${seen(moments)} cannot be seen in them.`;
      show(h("p", {}, text));
      return;
    }
    show(busy("Working it out"));
    const states = family.startsWith("pcfg") ? size.states : null;
    try {
      show(...reasons(await ask("identify", { family, moments, words, length, states })));
    } catch (error) {
      show(failure(error));
    }
  }
}

// A message for the first number that is out of range, or null.
function sizeProblem(size) {
  for (const [name, [least, most, , title]] of Object.entries(SIZES)) {
    const value = size[name];
    if (!Number.isInteger(value) || value < least || value > most)
      return `${title}: give a whole number from ${least} to ${most}; larger ones take too long for a page.`;
  }
  return null;
}

// A row for each family of models, a column for each kind of moments.
function deficitTable(rows, size, onchoose) {
  const moments = [...new Set(rows.map((row) => row.moments))];
  const families = [...new Set(rows.map((row) => row.family))];
  const heading = (name) => h("th", { scope: "col" }, seen(name), h("div", { class: "facts code" }, name));
  const cellOf = (family, name) =>
    deficitCell(
      rows.find((row) => row.family === family && row.moments === name),
      onchoose,
    );
  const line = (family) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, family, " ", h("div", { class: "facts" }, FAMILIES[family] ?? "")),
      moments.map((name) => cellOf(family, name)),
    );
  const sizes = `${plural(size.words, "word")}, ${plural(size.states, "state")}, sentences of ${size.length}`;
  return h(
    "table",
    { class: "wide stacked" },
    h("caption", {}, `Dimensions that stay unseen with ${sizes}`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Model, learnt from"), moments.map(heading))),
    h("tbody", {}, families.map(line)),
  );
}

function deficitCell(row, onchoose) {
  const { family, moments, deficit } = row;
  const [kind, sign, verdict] =
    deficit === null
      ? ["", "–", "sentences are too short for this"]
      : deficit === 0
        ? ["yes", "✓", "identifiable"]
        : ["no", String(deficit), `${plural(deficit, "dimension")} unseen`];
  const button = h(
    "button",
    {
      type: "button",
      class: `cell ${kind}`,
      "aria-label": `${family} from ${seen(moments)}: ${verdict}`,
      "data-cell": `${family} ${moments}`,
      onclick: () => onchoose(row, button),
    },
    sign,
  );
  return h("td", { "data-name": seen(moments) }, button);
}

function titledList(title, texts) {
  if (!texts.length) return null;
  const items = texts.map((text) => h("li", {}, text));
  return [h("p", { class: "small" }, title), h("ul", {}, items)];
}

// The parts of the panel on one cell: what is determined, what can move, and what would help.
function reasons(report) {
  const movable = Object.entries(report.movable ?? {}).filter(([, n]) => n);
  const facts = [
    ["parameters", String(report.parameters)],
    ["determined", `${report.rank}, by ${plural(report.numbers, "number")} that are seen`],
    ["unseen", plural(report.deficit, "dimension")],
  ];
  if (report.condition) {
    const factor = number(Number(report.condition.toPrecision(2)), 0);
    facts.push(["errors may grow", `${factor} times (condition number)`]);
  }
  const rows = facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]);
  return [
    h(
      "div",
      { class: "part" },
      h("p", {}, h("b", {}, report.identifiable ? "Can be learnt." : "Cannot be learnt.")),
      h("dl", { class: "plain" }, rows),
    ),
    titledList(
      "What can move",
      movable.map(([name, n]) => `${name}, in ${plural(n, "dimension")}`),
    ),
    titledList("Why", report.explanation),
    report.hint ? [h("p", { class: "small" }, "What would help"), h("p", {}, plainHint(report.hint))] : null,
  ];
}
