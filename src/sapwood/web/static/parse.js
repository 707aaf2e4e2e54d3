// Parse: sentences in, trees out; what a constituent is, how sure the model is, and what else it might have been.

import { ask } from "/static/api.js";
import { chartFigure } from "/static/chart.js";
import {
  announce,
  bars,
  busy,
  choose,
  failure,
  field,
  h,
  isRightToLeft,
  latest,
  number,
  percent,
  plural,
  put,
} from "/static/dom.js";
import { exportBar } from "/static/exports.js";
import { linkTo } from "/static/main.js";
import { drawingOf, outlineOf, treeFigure } from "/static/tree.js";

const EXAMPLES = [
  "the woman saw a dog in the garden .",
  "they hope that she slept .",
  "my children loved big balls that were in a bag .",
];
const K = 10;
const LEAST_SCALE = 0.75;
const FALLBACKS = {
  joined:
    "No parse: the grammar cannot build this sentence as a whole. Shown are its best pieces, side by side.",
  flat: "Too long to chart: each word has its likeliest tag, and nothing above.",
};

export function mount(root, { state, set, models, limits }) {
  const usable = models.filter((model) => model.kind === "trees" || model.kind === "arcs");
  if (!usable.length) {
    root.append(
      failure({ message: "No model here parses.", hint: "Start the server with one: sapwood serve MODEL" }),
    );
    return;
  }
  const known = usable.find((model) => model.name === state.model) ?? usable[0];
  let model = known.name,
    kind = known.kind,
    lines = [],
    place = 0,
    whole = null,
    shown = null,
    figure = null,
    chart = null,
    chosen = null;
  const rank = () => Math.max(1, Number(state.tree) || 1);

  const input = h("textarea", {
    rows: 2,
    dir: "auto",
    spellcheck: false,
    "aria-label": "Sentences, one a line, or a tree in brackets",
    placeholder: "Type or paste sentences, one a line; or a tree in brackets",
  });
  input.value = state.s ?? EXAMPLES[0];
  const picker = choose(
    usable.map((one) => [one.name, one.name]),
    model,
    (name) => {
      model = name;
      kind = usable.find((one) => one.name === name).kind;
      about.textContent = aboutOf();
      state.tree = null;
      set({ model, tree: null, node: null });
      draw();
    },
  );
  const decoder = choose(
    [
      ["f1", "best expected F1"],
      ["max-rule", "best product of rules"],
      ["goodman", "most expected constituents"],
      ["viterbi", "likeliest derivation"],
    ],
    state.decoder ?? "f1",
    (value) => {
      set({ decoder: value === "f1" ? null : value, tree: null });
      draw();
    },
  );
  const decoderField = field("Decoder", decoder);
  const aboutOf = () => usable.find((one) => one.name === model).about;
  const about = h("span", {}, aboutOf());
  const facts = h("p", { class: "facts", role: "status" });
  const says = h("div", {});
  const sentences = h("div", { class: "chips", role: "group", "aria-label": "Sentences" });
  const slider = h("input", {
    type: "range",
    min: "1",
    max: "1",
    value: "1",
    "aria-label": "Which of the best trees",
  });
  const sliderText = h("span", { class: "facts" });
  let wishesFit = null; // what the reader said; before that, trees are only made smaller as far as they stay readable
  const fit = h(
    "button",
    {
      type: "button",
      class: "chip",
      "aria-pressed": "true",
      onclick: () => {
        wishesFit = fit.getAttribute("aria-pressed") !== "true";
        setFit();
      },
    },
    "Fit to width",
  );
  const setFit = () => {
    const width = Number(picture.querySelector("svg")?.getAttribute("width") ?? 0);
    const on = wishesFit ?? width * LEAST_SCALE < picture.clientWidth;
    fit.setAttribute("aria-pressed", String(on));
    picture.classList.toggle("fit", on);
    if (!on) picture.scrollLeft = (picture.scrollWidth - picture.clientWidth) / 2;
  };
  const picture = h("div", { class: "figure fit" });
  const outline = h("div", {});
  const triangle = h("div", { class: "figure fit" });
  const chartCard = h(
    "section",
    { class: "card", "aria-label": "Chart" },
    h(
      "header",
      {},
      h("h2", {}, "Chart"),
      h("span", { class: "facts" }, "darker is likelier; framed cells are in the tree"),
    ),
    triangle,
  );
  const membersCard = h("section", { class: "card", "aria-label": "Members", hidden: true });
  const detail = h("aside", { class: "card side", "aria-live": "polite", "aria-label": "Constituent" });
  const treeExports = exportBar(() => shown);
  const arcExports = exportBar(() => shown, {
    first: "CoNLL-U",
    firstOf: (report) => `${report.conllu}\n`,
    suffix: "conllu",
  });
  const exportsPlace = h("div", {}, treeExports);

  root.append(
    h("h1", {}, "Parse"),
    h(
      "p",
      { class: "lead" },
      "Point at a constituent to see how sure the model is of it, which hidden states it is in, and what they mean.",
    ),
    h("div", { class: "bar" }, field("Model", picker), decoderField, h("span", { class: "facts" }, about)),
    input,
    h(
      "div",
      { class: "bar" },
      h(
        "div",
        { class: "chips", role: "group", "aria-label": "Examples" },
        EXAMPLES.map((text) =>
          h(
            "button",
            {
              type: "button",
              class: "chip",
              onclick: () => {
                input.value = text;
                place = 0;
                input.dispatchEvent(new Event("input"));
              },
            },
            text,
          ),
        ),
        h("button", { type: "button", class: "chip", onclick: surprise }, "Draw one at random"),
      ),
      sentences,
    ),
    says,
    facts,
    h(
      "div",
      { class: "split" },
      h(
        "div",
        { class: "stack" },
        h(
          "section",
          { class: "card", "aria-label": "Tree" },
          h("header", {}, h("div", { class: "chips" }, slider, sliderText, fit), exportsPlace),
          picture,
          outline,
        ),
        membersCard,
        chartCard,
      ),
      detail,
    ),
  );

  function readLines() {
    const text = input.value;
    // a bracketed tree may run over lines
    lines = text.trim().startsWith("(")
      ? [text.trim()]
      : text
          .split("\n")
          .map((line) => line.trim())
          .filter(Boolean);
    place = Math.min(Number(state.line ?? 0) || 0, Math.max(lines.length - 1, 0));
    put(
      sentences,
      ...(lines.length < 2
        ? []
        : lines.slice(0, 50).map((line, k) =>
            h(
              "button",
              {
                type: "button",
                class: "chip",
                dir: "auto",
                "aria-pressed": String(k === place),
                onclick: () => {
                  set({ line: k || null, tree: null, node: null });
                  draw();
                },
              },
              line.length > 40 ? `${line.slice(0, 38)}…` : line,
            ),
          )),
    );
  }

  const draw = latest(async () => {
    readLines();
    decoderField.hidden = kind !== "trees";
    if (!lines.length) {
      clear();
      facts.textContent = "Waiting for a sentence.";
      return;
    }
    try {
      const began = performance.now();
      const asked = { sentence: lines[place], model, k: Math.min(K, limits.k) };
      const report =
        kind === "trees"
          ? await ask("draw", { ...asked, decoder: state.decoder ?? "f1" })
          : await ask("depend", asked);
      put(says);
      whole = report;
      slider.max = String(Math.max(report.k_best.length, 1));
      slider.disabled = report.k_best.length < 2;
      if (kind === "trees") {
        if (rank() > 1 && report.k_best[rank() - 1]) await pick(rank());
        else showTree(report, 1);
      } else if (rank() > 1 && report.k_best[rank() - 1]) await pick(rank());
      else showArcs(report, 1);
      root.dataset.drawn = String(Math.round(performance.now() - began));
    } catch (error) {
      clear();
      put(says, failure(error));
    }
  });

  const pick = latest(async (number_) => {
    const best = whole.k_best[number_ - 1];
    if (!best) return;
    if (number_ === 1) {
      if (kind === "trees") showTree(whole, 1);
      else showArcs(whole, 1);
      return;
    }
    try {
      if (kind === "trees") {
        const report = await ask("tree", { tree: best.tree, model, decoder: state.decoder ?? "f1" });
        showTree({ ...report, kind: whole.kind, k_best: whole.k_best }, number_);
      } else
        showArcs(
          { ...(await ask("arcs", { conllu: best.conllu })), k_best: whole.k_best, score: best.score },
          number_,
        );
    } catch (error) {
      put(says, failure(error));
    }
  });

  function clear() {
    for (const part of [picture, outline, triangle, detail, facts]) put(part);
    membersCard.hidden = true;
    shown = null;
  }

  function showTree(report, number_) {
    shown = report;
    put(exportsPlace, treeExports);
    chartCard.hidden = false;
    slider.value = String(number_);
    sliderText.textContent = report.k_best.length
      ? `tree ${number_} of ${report.k_best.length}`
      : "as it was given";
    if (FALLBACKS[report.kind])
      put(says, h("div", { class: "notice", role: "status" }, h("p", {}, FALLBACKS[report.kind])));
    else if (report.kind === "given" && report.log_prob === null)
      put(
        says,
        h(
          "div",
          { class: "notice", role: "status" },
          h("p", {}, "The model cannot build this tree: its probability is 0. It is drawn as it is."),
        ),
      );
    const best = report.k_best[number_ - 1];
    put(
      facts,
      h("span", {}, plural(report.words.length, "word")),
      h("span", {}, "log P(tree) ", h("b", {}, number(report.log_prob))),
      h("span", {}, "log P(sentence) ", h("b", {}, number(report.sentence_log_prob))),
      report.posterior !== undefined && report.posterior !== null
        ? h("span", {}, "P(tree | sentence) ", h("b", {}, percent(report.posterior)))
        : null,
      best ? h("span", {}, "score ", h("b", {}, number(best.score, 3))) : null,
    );
    figure = treeFigure(report, {
      onpoint: (index) => point(index),
      onchoose: (index) => {
        chosen = chosen === index ? null : index;
        set({ node: chosen });
        figure.choose(chosen);
        point(index);
      },
    });
    put(picture, figure.element);
    setFit();
    put(outline, outlineOf(report));
    chart = chartFigure(report, {
      onpoint: lightSpan,
      onchoose: (span) => {
        const index = report.nodes.findIndex((node) => node.start === span[0] && node.end === span[1]);
        if (index >= 0) {
          chosen = index;
          set({ node: index });
          figure.choose(index);
          point(index);
        } else cellDetail(span);
      },
    });
    put(triangle, chart.element);
    chosen =
      state.node !== undefined && state.node !== null && report.nodes[Number(state.node)]
        ? Number(state.node)
        : null;
    figure.choose(chosen);
    if (chosen !== null) point(chosen);
    else
      put(
        detail,
        h("h2", {}, "Constituent"),
        h("p", { class: "none" }, "Point at a label, or walk the tree with the arrow keys."),
      );
    picture.dir = isRightToLeft(report.words) ? "rtl" : "ltr";
    members(report);
    announce(`Tree of ${plural(report.words.length, "word")} drawn`);
  }

  function lightSpan(span) {
    chart.light(span);
    figure.light(span === null ? null : (node) => node.start === span[0] && node.end === span[1]);
    if (span) {
      const index = shown.nodes.findIndex((node) => node.start === span[0] && node.end === span[1]);
      if (index < 0) cellDetail(span);
      else point(index, false);
    }
  }

  function cellDetail(span) {
    const cell = shown.chart.find((one) => one.start === span[0] && one.end === span[1]);
    put(
      detail,
      h("h2", {}, "Not in this tree"),
      h("p", { class: "quote", dir: "auto" }, shown.words.slice(...span).join(" ")),
      cell ? bars(cell.labels.slice(0, 8), { most: 1 }) : h("p", { class: "none" }, "Nothing likely here."),
    );
  }

  let turn = 0;
  async function point(index, lights = true) {
    const at = index ?? chosen;
    if (lights) {
      chart?.light(index === null ? null : [shown.nodes[index].start, shown.nodes[index].end]);
      figure?.light(null);
    }
    if (at === null || at === undefined || !shown.nodes[at]) return;
    const node = shown.nodes[at],
      mine = ++turn,
      report = shown;
    const cell = report.chart.find((one) => one.start === node.start && one.end === node.end);
    const rivals = (cell?.labels ?? []).filter(([label]) => label !== node.label).slice(0, 4);
    const states = h("div", {});
    put(
      detail,
      h("span", { class: "big" }, node.label),
      h("p", { class: "quote", dir: "auto" }, report.words.slice(node.start, node.end).join(" ")),
      node.posterior === null
        ? h("p", { class: "none" }, "The root: every tree has it.")
        : [
            h("p", { class: "small" }, "Posterior"),
            bars([[node.label, node.posterior], ...rivals], { most: 1 }),
          ],
      opinions(at),
      states,
    );
    if (!node.states) {
      if (report.nodes.some((one) => one.states))
        states.append(h("p", { class: "none" }, "This label has a single state."));
      return;
    }
    const order = node.states.shares
      .map((share, k) => [k, share])
      .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    const likeliest = order[0][0];
    states.append(
      h("p", { class: "small" }, `Hidden states of ${node.states.symbol}`),
      bars(
        order
          .filter(([, share]) => Math.abs(share) >= 0.005)
          .slice(0, 6)
          .map(([k, share]) => [
            `state ${k}`,
            share,
            linkTo("states", { model, label: node.states.symbol, state: k }, `state ${k}`),
          ]),
        { most: 1 },
      ),
    );
    try {
      const card = await ask("state", { model, symbol: node.states.symbol, state: likeliest });
      if (mine !== turn || report !== shown) return;
      if (card.state === null) {
        states.append(
          h(
            "p",
            { class: "none" },
            "The states of a spectral model are directions, not classes: they mean something only together.",
          ),
        );
        return;
      }
      const list = (kind_) => card[`${kind_}s`]?.slice(0, 6).map((row) => row[kind_]) ?? [];
      states.append(
        h("p", { class: "small" }, `What state ${likeliest} means`),
        h(
          "dl",
          { class: "plain" },
          list("word").length
            ? [h("dt", {}, "words"), h("dd", { dir: "auto" }, list("word").join(", "))]
            : null,
          list("rule").length
            ? [
                h("dt", {}, "becomes"),
                h(
                  "dd",
                  {},
                  list("rule")
                    .slice(0, 4)
                    .map((rule) => h("div", {}, rule)),
                ),
              ]
            : null,
          list("context").length
            ? [
                h("dt", {}, "stands in"),
                h(
                  "dd",
                  {},
                  list("context")
                    .slice(0, 4)
                    .map((context) => h("div", {}, context)),
                ),
              ]
            : null,
        ),
      );
    } catch (error) {
      if (mine === turn) states.append(failure(error));
    }
  }

  // -- ensembles --

  let voices = null;
  const alone = new Set(); // models that are known to be no ensembles
  function opinions(index) {
    const row = voices?.nodes[index];
    if (!row || row.posteriors.every((p) => p === null)) return null;
    return [
      h("p", { class: "small" }, row.disagree ? "Members disagree" : "By member"),
      bars(
        voices.members.map((one, k) => [`${one.member} ${one.method ?? ""}`, row.posteriors[k] ?? 0]),
        { most: 1 },
      ),
    ];
  }

  async function members(report) {
    voices = null;
    membersCard.hidden = true;
    const name = model;
    if (report.is_fallback || alone.has(name)) return;
    try {
      const found = await ask("members", { model, tree: report.tree });
      if (!found.members.length) alone.add(name);
      if (report !== shown || !found.members.length) return;
      voices = found;
      figure.mark("doubt", (_, index) => found.nodes[index].disagree);
      const doubts = report.nodes.filter((_, index) => found.nodes[index].disagree);
      membersCard.hidden = false;
      put(
        membersCard,
        h(
          "header",
          {},
          h("h2", {}, "Members"),
          h(
            "span",
            { class: "facts" },
            doubts.length
              ? `${plural(doubts.length, "constituent")} that members disagree about, dotted in the tree`
              : "all agree on this tree",
          ),
        ),
        h(
          "div",
          { class: "scroll" },
          h(
            "table",
            {},
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ["Member", "Method", "Weight", "Its own tree"].map((name) => h("th", { scope: "col" }, name)),
              ),
            ),
            h(
              "tbody",
              {},
              found.members.map((one) =>
                h(
                  "tr",
                  {},
                  h("th", { scope: "row" }, String(one.member)),
                  h("td", {}, one.method ?? "–"),
                  h("td", {}, percent(one.weight)),
                  h(
                    "td",
                    {},
                    one.same
                      ? "the same"
                      : one.is_fallback
                        ? "none"
                        : linkTo("parse", { model, s: one.tree }, "another"),
                  ),
                ),
              ),
            ),
          ),
        ),
      );
      if (chosen !== null) point(chosen);
    } catch {
      /* the tree stays, without opinions */
    }
  }

  // -- dependencies --

  function showArcs(report, number_) {
    shown = report;
    chartCard.hidden = true;
    membersCard.hidden = true;
    put(exportsPlace, arcExports);
    slider.value = String(number_);
    sliderText.textContent = `tree ${number_} of ${report.k_best.length}`;
    put(
      facts,
      h("span", {}, plural(report.words.length, "word")),
      report.k_best[number_ - 1]
        ? h("span", {}, "score ", h("b", {}, number(report.k_best[number_ - 1].score, 3)))
        : null,
    );
    const svg = drawingOf(report.svg);
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", `Dependencies: ${report.words.join(" ")}`);
    const lines_ = [...svg.querySelectorAll("path[data-node]")];
    const show = (k) => {
      for (const line of lines_) line.classList.toggle("lit", Number(line.dataset.node) === k + 1);
      arcDetail(k);
    };
    for (const text of svg.querySelectorAll("text[data-node]")) {
      const k = Number(text.dataset.node) - 1;
      text.addEventListener("pointerover", () => show(k));
      if (!text.classList.contains("word")) continue;
      const node = report.nodes[k];
      text.classList.add("node");
      for (const [name, value] of Object.entries({
        tabindex: k === 0 ? "0" : "-1",
        role: "button",
        "aria-label": `${node.word}: ${node.relation} of ${node.head ? report.words[node.head - 1] : "the root"}`,
      }))
        text.setAttribute(name, value);
      text.addEventListener("focus", () => show(k));
      text.addEventListener("click", () => {
        set({ node: k });
        show(k);
      });
      text.addEventListener("keydown", (event) => {
        const rtl = isRightToLeft(report.words);
        const step = { ArrowLeft: rtl ? 1 : -1, ArrowRight: rtl ? -1 : 1 }[event.key];
        const to = event.key === "ArrowUp" ? node.head - 1 : step ? k + step : null;
        const other = to === null ? null : svg.querySelector(`text.word[data-node="${to + 1}"]`);
        if (other) {
          text.setAttribute("tabindex", "-1");
          other.setAttribute("tabindex", "0");
          other.focus();
        }
        if (step || event.key === "ArrowUp") event.preventDefault();
      });
    }
    put(picture, svg);
    setFit();
    put(
      outline,
      h(
        "details",
        {},
        h("summary", {}, "Outline: the arcs as a list"),
        h(
          "ul",
          { class: "outline", dir: "auto" },
          report.nodes.map((node) =>
            h(
              "li",
              {},
              h("span", { class: "label" }, node.word),
              " ",
              h("span", { class: "tag" }, node.upos),
              ` ${node.relation} of ${node.head ? report.words[node.head - 1] : "the root"}`,
            ),
          ),
        ),
      ),
    );
    put(
      detail,
      h("h2", {}, "Word"),
      h("p", { class: "none" }, "Point at a word to see its head, and the rivals of its head."),
    );
    if (state.node !== undefined && state.node !== null && report.nodes[Number(state.node)])
      show(Number(state.node));
    announce("Dependencies drawn");
  }

  function arcDetail(k) {
    const node = shown.nodes[k];
    const name = (head) => (head ? shown.words[head - 1] : "the root");
    put(
      detail,
      h("span", { class: "big" }, node.word),
      h("p", { class: "quote", dir: "auto" }, `${node.relation} of ${name(node.head)}`),
      h(
        "dl",
        { class: "plain" },
        h("dt", {}, "tag"),
        h("dd", {}, `${node.upos} ${node.xpos === "_" ? "" : node.xpos}`),
      ),
      node.posterior === undefined
        ? null
        : [
            h("p", { class: "small" }, "Posterior of the head"),
            bars(
              [
                [name(node.head), node.posterior],
                ...node.rivals.map((rival) => [name(rival.head), rival.posterior]),
              ],
              { most: 1 },
            ),
          ],
    );
  }

  // -- typing, sliding, drawing lots --

  async function surprise() {
    try {
      const found = await ask("sample", {
        n: 1,
        seed: Math.floor(Math.random() * 2 ** 31),
        model: kind === "trees" ? model : undefined,
      });
      input.value = found.trees[0]
        .replace(/\([^\s()]+ /g, " ")
        .replace(/\)/g, "")
        .trim()
        .split(/\s+/)
        .join(" ");
      input.dispatchEvent(new Event("input"));
    } catch (error) {
      put(says, failure(error));
    }
  }
  input.addEventListener("input", () => {
    set({ s: input.value, model, tree: null, node: null, line: null });
    draw();
  });
  slider.addEventListener("input", () => {
    set({ tree: slider.value === "1" ? null : slider.value, node: null });
    pick(Number(slider.value));
  });
  put(facts, busy("Loading the model"));
  draw();
}
