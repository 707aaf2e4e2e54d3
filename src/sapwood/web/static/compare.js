// Compare: two models on the same sentence, or on the same gold trees.

import { ask } from "/static/api.js";
import { bars, busy, choose, failure, field, h, latest, number, plural, put } from "/static/dom.js";
import { term } from "/static/terms.js";
import { treeFigure } from "/static/tree.js";
import { isTree, itemChips, readTyped, splitNotice } from "/static/typed.js";

const DEFAULT = "he helped Max meet cooks with our hat .";

export function mount(root, { state, set, models }) {
  const usable = models.filter((model) => model.kind === "trees");
  if (!usable.length) {
    root.append(
      failure({
        message: "No grammar here to compare.",
        hint: "Start the server with two: sapwood serve MODEL OTHER",
      }),
    );
    return;
  }
  let a = (usable.find((one) => one.name === state.a) ?? usable[0]).name;
  let b = (usable.find((one) => one.name === state.b) ?? usable[1] ?? usable[0]).name;
  let gold = null;
  let turn = 0;
  const options = usable.map((one) => [one.name, one.name]);
  const input = h("textarea", {
    rows: 2,
    dir: "auto",
    spellcheck: false,
    "aria-label": "A sentence, or gold trees in brackets",
    placeholder: "A sentence; or gold trees in brackets",
  });
  input.value = state.s ?? DEFAULT;
  const file = h("input", {
    type: "file",
    "aria-label": "Gold trees from a file",
    onchange: async () => {
      if (file.files[0]) {
        gold = await file.files[0].text();
        run();
      }
    },
  });
  const out = h("div", { class: "stack" });
  const sentences = h("div", { class: "chips", role: "group", "aria-label": "Sentences" });
  const readAs = h("div", {});
  root.append(
    h("h1", {}, "Compare"),
    h(
      "p",
      { class: "lead" },
      "Two models on the same words. What only one of them has is marked; " +
        "on gold trees, the scores and the classes of errors.",
    ),
    h(
      "div",
      { class: "bar" },
      field(
        "One model",
        choose(options, a, (name) => {
          a = name;
          set({ a });
          run();
        }),
      ),
      field(
        "Another",
        choose(options, b, (name) => {
          b = name;
          set({ b });
          run();
        }),
      ),
      field("Gold trees from a file", file),
    ),
    input,
    sentences,
    readAs,
    h("p", {}),
    out,
  );

  // The sentence of the text that was chosen.
  function read() {
    const byLine = Boolean(state.lines);
    const typed = readTyped(input.value, { byLine });
    const place = Math.min(Number(state.line ?? 0) || 0, Math.max(typed.items.length - 1, 0));
    const choosing = (change) => {
      set(change);
      run();
    };
    put(sentences, ...itemChips(typed, place, (k) => choosing({ line: k || null })));
    put(
      readAs,
      splitNotice(typed, byLine, (lines) => choosing({ lines: lines ? 1 : null, line: null })),
    );
    return typed.items[place] ?? "";
  }

  const run = latest(async () => {
    const mine = ++turn;
    const isGold = gold !== null || isTree(input.value);
    const text = isGold ? input.value.trim() : read();
    if (!gold && !text) {
      put(out, h("p", { class: "none" }, "Waiting for a sentence."));
      return;
    }
    if (!out.childElementCount || gold) put(out, busy("Parsing"));
    try {
      const found = await ask("compare", {
        models: [a, b],
        ...(isGold ? { gold: gold ?? text } : { sentence: text }),
      });
      if (mine === turn) put(out, ...(isGold ? onGold(found) : onSentence(found)));
    } catch (error) {
      if (mine === turn) put(out, failure(error));
    }
  });

  // One above the other where they would become too small side by side.
  const isWide = (report) => Number(report.svg.match(/ width="(\d+)"/)[1]) * 0.75 > out.clientWidth / 2 - 60;

  function side(report, title, note) {
    const figure = treeFigure(report, { label: title });
    figure.mark("differs", (node) => node.differs);
    return h(
      "section",
      { class: "card", "aria-label": title },
      h("header", {}, h("h2", {}, title), h("span", { class: "facts" }, note)),
      h("div", { class: "figure fit" }, figure.element),
    );
  }

  function onSentence(found) {
    const [one, other] = found.sides;
    const differing =
      one.nodes.filter((node) => node.differs).length + other.nodes.filter((node) => node.differs).length;
    return [
      h(
        "p",
        { class: "facts", role: "status" },
        differing
          ? h(
              "span",
              {},
              h("b", {}, plural(differing, "node")),
              " that only one tree has; ",
              h("b", {}, String(found.shared)),
              " phrases in both",
            )
          : "Both give the same tree.",
      ),
      h(
        "div",
        { class: isWide(one) ? "stack" : "pair" },
        found.sides.map((report) =>
          side(
            report,
            report.model,
            report.is_fallback
              ? "no parse: pieces side by side"
              : h("span", {}, term("log P"), ` ${number(report.log_prob)}`),
          ),
        ),
      ),
    ];
  }

  function onGold(found) {
    const figures = [
      ["F1", "f1"],
      ["recall", "recall"],
      ["precision", "precision"],
      ["exact", "complete_match"],
      ["tags", "tagging_accuracy"],
    ];
    const kinds = [...new Set(found.models.flatMap((one) => Object.keys(one.kinds)))];
    const detail = h("div", { class: "stack" });
    const rows = found.sentences
      .map((sentence, k) => ({ ...sentence, k }))
      .sort((x, y) => Math.min(...x.f1) - Math.min(...y.f1));
    const table = h(
      "table",
      {},
      h("caption", {}, "Sentences, the hardest first; choose one to see its trees"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Sentence"),
          [a, b].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.slice(0, 100).map((row) => {
          const open = () => {
            for (const other of table.querySelectorAll("tbody tr")) other.removeAttribute("aria-selected");
            line.setAttribute("aria-selected", "true");
            showSentence(row, detail);
          };
          const line = h(
            "tr",
            {
              class: "pick",
              tabindex: "0",
              onclick: open,
              onkeydown: (event) => {
                if (event.key === "Enter" || event.key === " ") {
                  open();
                  event.preventDefault();
                }
              },
            },
            h(
              "td",
              { dir: "auto" },
              row.words.length > 16 ? `${row.words.slice(0, 15).join(" ")} …` : row.words.join(" "),
            ),
            row.f1.map((f1) => h("td", {}, number(f1, 1))),
          );
          return line;
        }),
      ),
    );
    if (rows.length) showSentence(rows[0], detail);
    return [
      h(
        "section",
        { class: "card", "aria-label": "Scores" },
        h(
          "div",
          { class: "scroll" },
          h(
            "table",
            {},
            h("caption", {}, `${plural(found.sentences.length, "gold tree")}, in percent`),
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                h("th", { scope: "col" }, "Model"),
                figures.map(([name]) => h("th", { scope: "col" }, name)),
                h("th", { scope: "col" }, "no parse"),
              ),
            ),
            h(
              "tbody",
              {},
              found.models.map((one) =>
                h(
                  "tr",
                  {},
                  h("th", { scope: "row" }, one.model),
                  figures.map(([, key]) => h("td", {}, number(one.scores[key], 2))),
                  h("td", {}, String(one.fallbacks)),
                ),
              ),
            ),
          ),
        ),
      ),
      kinds.length
        ? h(
            "section",
            { class: "card", "aria-label": "Classes of errors" },
            h("h2", {}, "Classes of errors"),
            h(
              "div",
              { class: "pair" },
              found.models.map((one) =>
                h(
                  "div",
                  {},
                  h("p", { class: "small" }, one.model),
                  bars(
                    kinds.map((kind) => [
                      kind,
                      (one.kinds[kind]?.missing ?? 0) + (one.kinds[kind]?.extra ?? 0),
                    ]),
                    {
                      most: Math.max(
                        1,
                        ...found.models.flatMap((each) =>
                          kinds.map(
                            (kind) => (each.kinds[kind]?.missing ?? 0) + (each.kinds[kind]?.extra ?? 0),
                          ),
                        ),
                      ),
                      format: String,
                    },
                  ),
                ),
              ),
            ),
          )
        : h("p", { class: "none" }, "No errors at all."),
      h("section", { class: "card" }, h("div", { class: "scroll" }, table)),
      detail,
    ];
  }

  async function showSentence(row, place) {
    try {
      const pairs = await Promise.all(
        row.trees.map((tree) => ask("difference", { trees: [row.gold, tree] })),
      );
      put(
        place,
        h(
          "div",
          { class: isWide(pairs[0].sides[0]) ? "stack" : "pair" },
          pairs.map((pair, k) =>
            side(pair.sides[1], [a, b][k], h("span", {}, term("F1"), ` ${number(row.f1[k], 1)}`)),
          ),
        ),
        side(
          {
            ...pairs[0].sides[0],
            nodes: pairs[0].sides[0].nodes.map((node) => ({ ...node, differs: false })),
          },
          "Gold",
          "",
        ),
      );
    } catch (error) {
      put(place, failure(error));
    }
  }

  input.addEventListener("input", () => {
    gold = null;
    file.value = "";
    set({ s: input.value, a, b, line: null });
    run();
  });
  run();
}
