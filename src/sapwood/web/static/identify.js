// Identify: which families of models can be learnt from which moments, before any data is there.

import { ask } from "/static/api.js";
import { busy, failure, field, h, latest, number, plural, put } from "/static/dom.js";
import { sidePanel } from "/static/panel.js";

const LEAD =
  "Some models cannot be learnt from some statistics, however much data there is. Each cell counts the dimensions " +
  "in which the parameters could change without any change in what is seen; ✓ means none: the model can be learnt.";

// What the tables of each family say of a node's children.
const FAMILIES = {
  pcfg: "hidden states; both children drawn together",
  "pcfg-i": "hidden states; left and right child independent, a table for each",
  "pcfg-ie": "hidden states; left and right child independent, one table for both",
  "dep-i": "dependencies between words; left and right arguments, a table for each",
  "dep-ie": "dependencies between words; one table for both sides",
  "dep-ies": "dependencies between words; one table, and the root follows from it",
};

// What is seen of each sentence.
const MOMENTS = {
  12: "words 1 and 2",
  pairs: "every two words",
  "123e1": "words 1 and 2, where word 3 is one chosen word",
  123: "words 1, 2 and 3",
  "triples-e1": "every two words, where a third is one chosen word",
  triples: "every three words",
  all: "whole sentences",
};

// What the command line's options say, in the words of this page.
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
  const control = (name) => {
    const [least, most, usual] = SIZES[name];
    const input = h("input", {
      type: "number",
      min: String(least),
      max: String(most),
      value: state[name] ?? String(usual),
      oninput: () => {
        set({ [name]: input.value });
        run();
      },
    });
    return input;
  };
  const inputs = Object.fromEntries(Object.keys(SIZES).map((name) => [name, control(name)]));
  const table = h("div", { class: "scroll" });
  const panel = sidePanel("Why", () => set({ family: null, moments: null }));
  panel.show(
    h("h2", {}, "Why"),
    h("p", { class: "none" }, "Open a cell to see what cannot be learnt, and what would help."),
  );
  const fields = Object.entries(inputs).map(([name, input]) => field(SIZES[name][3], input));
  root.append(
    h("h1", {}, "Identify"),
    h("p", { class: "lead" }, LEAD),
    h("div", { class: "bar" }, fields),
    h("div", { class: "split" }, h("div", { class: "card" }, table), panel.element),
  );

  // A message for the first number that is out of range.
  function wrongSize() {
    for (const [name, input] of Object.entries(inputs)) {
      const [least, most, , title] = SIZES[name];
      const value = Number(input.value);
      if (!Number.isInteger(value) || value < least || value > most)
        return `${title}: give a whole number from ${least} to ${most}; larger ones take too long for a page.`;
    }
    return null;
  }

  const run = latest(async () => {
    const wrong = wrongSize();
    if (wrong) {
      put(table, failure({ message: wrong, hint: "`sapwood identify` takes larger numbers." }));
      return;
    }
    const size = Object.fromEntries(
      Object.entries(inputs).map(([name, input]) => [name, Number(input.value)]),
    );
    put(table, busy("Ranks are being computed, exactly"));
    try {
      const { rows } = await ask("identify/table", size);
      put(table, tableOf(rows, size));
      const wanted = rows.find((row) => row.family === state.family && row.moments === state.moments);
      if (wanted) open(wanted, size);
    } catch (error) {
      put(table, failure(error));
    }
  });

  function tableOf(rows, size) {
    const moments = [...new Set(rows.map((row) => row.moments))];
    const families = [...new Set(rows.map((row) => row.family))];
    const heading = (name) => h("th", { scope: "col" }, seen(name), h("div", { class: "facts code" }, name));
    const line = (family) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, family, " ", h("div", { class: "facts" }, FAMILIES[family] ?? "")),
        moments.map((name) =>
          cell(
            rows.find((row) => row.family === family && row.moments === name),
            size,
          ),
        ),
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

  function cell(row, size) {
    const verdict =
      row.deficit === null
        ? "sentences are too short for this"
        : row.deficit === 0
          ? "identifiable"
          : `${plural(row.deficit, "dimension")} unseen`;
    const choosing = () => {
      set({ family: row.family, moments: row.moments });
      open(row, size, button);
    };
    const button = h(
      "button",
      {
        type: "button",
        class: `cell ${row.deficit === 0 ? "yes" : row.deficit === null ? "" : "no"}`,
        "aria-label": `${row.family} from ${seen(row.moments)}: ${verdict}`,
        "data-cell": `${row.family} ${row.moments}`,
        onclick: choosing,
      },
      row.deficit === null ? "–" : row.deficit === 0 ? "✓" : String(row.deficit),
    );
    return h("td", { "data-name": seen(row.moments) }, button);
  }

  async function open(row, size, anchor = null) {
    const title = h(
      "div",
      { class: "part" },
      h("h2", {}, row.family),
      h("p", { class: "quote" }, `from ${seen(row.moments)}`),
    );
    const show = (...parts) => {
      panel.show(title, ...parts);
      panel.open(anchor);
    };
    if (row.deficit === null) {
      show(
        h(
          "p",
          {},
          `Sentences of ${size.length} words are too short: ${seen(row.moments)} cannot be seen in them.`,
        ),
      );
      return;
    }
    show(busy("Working it out"));
    const states = row.family.startsWith("pcfg") ? size.states : null;
    try {
      const { words, length } = size;
      show(
        ...reasons(
          await ask("identify", { family: row.family, moments: row.moments, words, length, states }),
        ),
      );
    } catch (error) {
      show(failure(error));
    }
  }

  function reasons(report) {
    const movable = Object.entries(report.movable ?? {}).filter(([, n]) => n);
    const facts = [
      ["parameters", String(report.parameters)],
      ["determined", `${report.rank}, by ${plural(report.numbers, "number")} that are seen`],
      ["unseen", plural(report.deficit, "dimension")],
    ];
    if (report.condition)
      facts.push([
        "errors may grow",
        `${number(Number(report.condition.toPrecision(2)), 0)} times (condition number)`,
      ]);
    const list = (name, texts) =>
      texts.length
        ? [
            h("p", { class: "small" }, name),
            h(
              "ul",
              {},
              texts.map((text) => h("li", {}, text)),
            ),
          ]
        : null;
    return [
      h(
        "div",
        { class: "part" },
        h("p", {}, h("b", {}, report.identifiable ? "Can be learnt." : "Cannot be learnt.")),
        h(
          "dl",
          { class: "plain" },
          facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
        ),
      ),
      list(
        "What can move",
        movable.map(([name, n]) => `${name}, in ${plural(n, "dimension")}`),
      ),
      list("Why", report.explanation),
      report.hint
        ? [h("p", { class: "small" }, "What would help"), h("p", {}, plainHint(report.hint))]
        : null,
    ];
  }
  run();
  return () => panel.close();
}
