// Identify: which families of models can be learnt from which moments, before any data is there.

import { ask } from "/static/api.js";
import { busy, failure, field, h, latest, number, plural, put } from "/static/dom.js";

// What the tables of each family say of a node's children.
const FAMILIES = {
  pcfg: "children together, given their state",
  "pcfg-i": "left and right child, each by a table",
  "pcfg-ie": "both children by one table",
  "dep-i": "words; left and right arguments, each by a table",
  "dep-ie": "words; both sides by one table",
  "dep-ies": "likewise, and the root is its stationary vector",
};

export function mount(root, { state, set }) {
  const sizes = { words: [2, 6, 3], states: [2, 5, 2], length: [2, 6, 4] };
  const inputs = Object.fromEntries(
    Object.entries(sizes).map(([name, [least, most, usual]]) => [
      name,
      h("input", {
        type: "number",
        min: String(least),
        max: String(most),
        value: state[name] ?? String(usual),
        oninput: () => {
          set({ [name]: inputs[name].value });
          run();
        },
      }),
    ]),
  );
  const table = h("div", { class: "scroll" }),
    detail = h(
      "aside",
      { class: "card side", "aria-live": "polite", "aria-label": "Why" },
      h("h2", {}, "Why"),
      h("p", { class: "none" }, "Open a cell to see what cannot be learnt, and what would help."),
    );
  root.append(
    h("h1", {}, "Identify"),
    h(
      "p",
      { class: "lead" },
      "Some models cannot be learnt from some statistics, however much data there is. Each cell counts the dimensions in which parameters could move unseen; ✓ means none.",
    ),
    h(
      "div",
      { class: "bar" },
      field("Words", inputs.words),
      field("Hidden states", inputs.states),
      field("Length of sentences", inputs.length),
    ),
    h("div", { class: "split" }, h("div", { class: "card" }, table), detail),
  );

  const run = latest(async () => {
    const size = Object.fromEntries(
      Object.entries(inputs).map(([name, input]) => [name, Number(input.value)]),
    );
    put(table, busy("Ranks are being computed, exactly"));
    try {
      const { rows } = await ask("identify/table", size);
      const moments = [...new Set(rows.map((row) => row.moments))],
        families = [...new Set(rows.map((row) => row.family))];
      put(
        table,
        h(
          "table",
          { class: "wide" },
          h(
            "caption",
            {},
            `Dimensions that stay unseen with ${plural(size.words, "word")}, ${plural(size.states, "state")}, sentences of ${size.length}`,
          ),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, "Family"),
              moments.map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          h(
            "tbody",
            {},
            families.map((family) =>
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
              ),
            ),
          ),
        ),
      );
      if (state.family && state.moments)
        open(
          rows.find((row) => row.family === state.family && row.moments === state.moments),
          size,
        );
    } catch (error) {
      put(table, failure(error));
    }
  });

  function cell(row, size) {
    const name = `${row.family} from ${row.moments}: ${row.deficit === null ? "no such moments" : row.deficit === 0 ? "identifiable" : `${row.deficit} dimensions unseen`}`;
    return h(
      "td",
      {},
      h(
        "button",
        {
          type: "button",
          class: `cell ${row.deficit === 0 ? "yes" : row.deficit === null ? "" : "no"}`,
          "aria-label": name,
          onclick: () => {
            set({ family: row.family, moments: row.moments });
            open(row, size);
          },
        },
        row.deficit === null ? "–" : row.deficit === 0 ? "✓" : String(row.deficit),
      ),
    );
  }

  async function open(row, size) {
    if (!row) return;
    const title = [h("h2", {}, row.family), h("p", { class: "quote" }, `from ${row.moments}`)];
    if (row.deficit === null) {
      put(detail, ...title, h("p", {}, row.reason));
      return;
    }
    put(detail, ...title, busy("Working it out"));
    try {
      const report = await ask("identify", {
        family: row.family,
        moments: row.moments,
        words: size.words,
        length: size.length,
        states: row.family.startsWith("pcfg") ? size.states : null,
      });
      const movable = Object.entries(report.movable ?? {}).filter(([, n]) => n);
      put(
        detail,
        ...title,
        h("p", {}, h("b", {}, report.identifiable ? "Can be learnt." : "Cannot be learnt.")),
        h(
          "dl",
          { class: "plain" },
          h("dt", {}, "parameters"),
          h("dd", {}, String(report.parameters)),
          h("dt", {}, "rank"),
          h("dd", {}, `${report.rank} of ${plural(report.numbers, "moment")}`),
          h("dt", {}, "unseen"),
          h("dd", {}, plural(report.deficit, "dimension")),
          report.condition
            ? [h("dt", {}, "condition"), h("dd", {}, number(Number(report.condition.toPrecision(2)), 0))]
            : null,
        ),
        movable.length
          ? [
              h("p", { class: "small" }, "What can move"),
              h(
                "ul",
                {},
                movable.map(([name, n]) => h("li", {}, `${name}, in ${plural(n, "dimension")}`)),
              ),
            ]
          : null,
        report.explanation.length
          ? [
              h("p", { class: "small" }, "Why"),
              h(
                "ul",
                {},
                report.explanation.map((text) => h("li", {}, text)),
              ),
            ]
          : null,
        report.hint ? [h("p", { class: "small" }, "What would help"), h("p", {}, report.hint)] : null,
      );
    } catch (error) {
      put(detail, ...title, failure(error));
    }
  }
  run();
}
