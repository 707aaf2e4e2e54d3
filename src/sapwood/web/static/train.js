// Train: a treebank in, a model out, watched on the way.

import { ask, get, remove, upload } from "/static/api.js";
import { announce, busy, choose, failure, field, h, number, plural, put } from "/static/dom.js";
import { addressOf, linkTo } from "/static/main.js";
import { curve } from "/static/plots.js";

const METHODS = [
  ["spectral", "spectral: singular values, no iterations"],
  ["em", "em: probabilities by EM, states split in two"],
  ["cluster", "cluster: states are clusters of nodes"],
  ["pivot", "pivot: pivot features and convex EM"],
  ["pivot-em", "pivot-em: EM from the pivot estimate"],
  ["pcfg", "pcfg: relative frequencies, no hidden states"],
  ["crf", "crf: features of spans"],
  ["best", "best: a mix of the others within a budget"],
];
const PERIOD = 400;

export function mount(root, { state, set }) {
  let treebank = state.treebank ?? "bundled";
  let isHere = true;
  let wasRunning = false;
  const source = h("div", {});
  const checked = h("div", { "aria-live": "polite" });
  const pasted = h("textarea", {
    rows: 4,
    spellcheck: false,
    dir: "auto",
    "aria-label": "Trees in brackets",
    placeholder: "(S (NP (NNS dogs)) (VP (VBP bark)))",
  });
  const file = h("input", {
    type: "file",
    "aria-label": "A treebank file",
    onchange: async () => {
      if (file.files[0]) send(file.files[0].name, await file.files[0].arrayBuffer());
    },
  });
  const where = choose(
    [
      ["bundled", "the bundled treebank, 3,000 trees"],
      ["upload", "one of my own"],
    ],
    treebank === "bundled" ? "bundled" : "upload",
    (value) => {
      treebank = value === "bundled" ? "bundled" : null;
      set({ treebank: value === "bundled" ? null : treebank });
      showSource();
    },
  );
  const method = choose(METHODS, state.method ?? "spectral", (value) => {
    set({ method: value });
    showOptions();
  });
  const states = h("input", {
    type: "number",
    min: "1",
    max: "64",
    value: state.states ?? "8",
    oninput: () => set({ states: states.value }),
  });
  const budget = h("input", {
    type: "number",
    min: "1",
    max: "3600",
    value: state.budget ?? "30",
    oninput: () => set({ budget: budget.value }),
  });
  const dev = h("select", { onchange: () => set({ dev: dev.value }) });
  const start = h("button", { type: "submit", class: "primary" }, "Train");
  const cancel = h(
    "button",
    {
      type: "button",
      hidden: true,
      onclick: async () => {
        try {
          await remove("train");
        } catch (error) {
          put(problem, failure(error));
        }
        poll();
      },
    },
    "Cancel",
  );
  const problem = h("div", {});
  const progress = h("div", { class: "stack" });
  const budgetField = field("Budget, seconds", budget);
  const statesField = field("States of a label, at most", states);
  root.append(
    h("h1", {}, "Train"),
    h(
      "p",
      { class: "lead" },
      "Learn a grammar here and now, from the bundled trees or from your own. One training runs at a time, " +
        "in a process of its own; what you upload stays on this machine, and goes when the server stops.",
    ),
    h(
      "form",
      {
        class: "stack",
        onsubmit: (event) => {
          event.preventDefault();
          begin();
        },
      },
      h(
        "section",
        { class: "card", "aria-label": "Treebank" },
        h("div", { class: "bar" }, field("Learn from", where), source),
        checked,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Method" },
        h("div", { class: "bar" }, field("Method", method), statesField, budgetField, field("Score on", dev)),
        h("div", { class: "bar" }, start, cancel),
        problem,
      ),
    ),
    h("p", {}),
    progress,
  );

  function showSource() {
    const isOwn = where.value === "upload";
    put(source, ...(isOwn ? [file] : []));
    put(
      checked,
      ...(isOwn
        ? [
            field("Or paste trees here", pasted, { grow: true }),
            h(
              "button",
              { type: "button", onclick: () => send("pasted", new TextEncoder().encode(pasted.value)) },
              "Check these",
            ),
            h("div", { class: "verdict" }),
          ]
        : []),
    );
    const choices = isOwn
      ? [
          ["hold-out", "every tenth tree, held out"],
          ["none", "nothing"],
        ]
      : [
          ["bundled", "the bundled dev trees"],
          ["hold-out", "every tenth tree, held out"],
          ["none", "nothing"],
        ];
    put(dev, ...choices.map(([value, text]) => h("option", { value, selected: value === state.dev }, text)));
    showOptions();
  }
  function showOptions() {
    budgetField.hidden = method.value !== "best";
    statesField.hidden = method.value === "pcfg" || method.value === "crf";
    start.disabled = wasRunning || treebank === null;
  }

  async function send(title, bytes) {
    const verdict = checked.querySelector(".verdict");
    put(verdict, busy("Reading"));
    treebank = null;
    try {
      const report = await upload(`treebanks?title=${encodeURIComponent(title)}`, bytes);
      treebank = report.treebank;
      set({ treebank });
      put(verdict, ...judge(report));
      announce(`${plural(report.trees, "tree")} read, ${plural(report.n_errors, "error")}`);
    } catch (error) {
      put(verdict, failure(error));
    }
    showOptions();
  }

  function judge(report) {
    const parts = [
      h(
        "p",
        { class: "facts" },
        h("span", {}, h("b", {}, report.trees.toLocaleString("en")), " trees"),
        h("span", {}, h("b", {}, report.words.toLocaleString("en")), " words"),
        h("span", {}, h("b", {}, String(report.labels)), " labels"),
      ),
    ];
    if (report.n_errors)
      parts.push(
        h(
          "div",
          { class: "notice" },
          h(
            "p",
            {},
            `${plural(report.n_errors, "tree")} cannot be read${report.treebank ? " and will be left out" : ""}:`,
          ),
        ),
        ...report.errors.map((error) =>
          h(
            "div",
            {},
            h(
              "p",
              { class: "small" },
              `Line ${error.line ?? "?"}${error.column ? `, column ${error.column}` : ""}: ${error.error}`,
            ),
            h(
              "pre",
              { class: "source" },
              error.excerpt,
              "\n",
              h("span", { class: "caret" }, `${" ".repeat(error.at)}▲`),
            ),
            error.hint ? h("p", { class: "facts" }, error.hint) : null,
          ),
        ),
      );
    if (!report.treebank)
      parts.push(
        failure({ message: "Too few trees to learn from.", hint: "Two good ones are needed at least." }),
      );
    return parts;
  }

  async function begin() {
    put(problem);
    try {
      const isBest = method.value === "best";
      await ask("train", {
        treebank: treebank ?? "bundled",
        dev: dev.value,
        method: method.value,
        states: Number(states.value) || 8,
        ...(isBest ? { budget: Number(budget.value) || 30 } : {}),
      });
      announce("Training has begun");
      poll();
    } catch (error) {
      put(problem, failure(error));
    }
  }

  let clock = null;
  async function poll() {
    clearTimeout(clock);
    if (!isHere) return;
    try {
      const run = await get("train");
      if (!isHere) return;
      show(run);
      if (wasRunning && run.state !== "running") announce(`Training ${run.state}`);
      wasRunning = run.state === "running";
      cancel.hidden = !wasRunning;
      showOptions();
      if (wasRunning) clock = setTimeout(poll, PERIOD);
    } catch (error) {
      put(problem, failure(error));
    }
  }

  function show(run) {
    if (!run.state) {
      put(progress);
      return;
    }
    const last = run.phases.at(-1)?.name;
    const parts = [
      h(
        "header",
        {},
        h("h2", {}, `${run.method}, ${run.treebank === "bundled" ? "bundled trees" : run.treebank}`),
        h(
          "span",
          { class: "facts", role: "status", "data-state": run.state },
          run.state === "running"
            ? [
                h("span", { class: "spin", "aria-hidden": "true" }),
                `${last ?? "starting"}, ${number(run.seconds, 1)} s`,
              ]
            : `${run.state} after ${number(run.seconds, 1)} s`,
        ),
      ),
      h(
        "ol",
        { class: "steps" },
        run.phases.map((phase, k) =>
          h(
            "li",
            { "aria-current": run.state === "running" && k === run.phases.length - 1 ? "step" : null },
            `${phase.name}`,
          ),
        ),
      ),
    ];
    if (run.read)
      parts.push(
        h(
          "p",
          { class: "facts" },
          [
            plural(run.read.trees, "tree"),
            plural(run.read.words, "word"),
            run.read.dev ? plural(run.read.dev, "dev tree") : "no dev trees",
          ].join(", "),
        ),
      );
    if (run.error) parts.push(failure({ message: run.error, hint: run.hint }));
    const plots = [];
    if (run.iterations.length > 1)
      plots.push(
        h(
          "div",
          {},
          h("p", { class: "small" }, `Log-likelihood, ${plural(run.iterations.at(-1)[1], "state")}`),
          curve(
            run.iterations.map(([n, , log]) => [n, log]),
            { title: "Log-likelihood by iteration" },
          ),
        ),
      );
    if (run.grades.length > 1)
      plots.push(
        h(
          "div",
          {},
          h("p", { class: "small" }, "Dev F1"),
          curve(run.grades, { title: "Dev F1 by iteration", digits: 2 }),
        ),
      );
    const graded = run.trials.filter((trial) => trial.f1 !== null && trial.f1 !== undefined);
    if (graded.length > 1)
      plots.push(
        h(
          "div",
          {},
          h("p", { class: "small" }, "Dev F1 of candidates"),
          curve(
            graded.map((trial, k) => [k + 1, trial.f1]),
            { title: "Dev F1 by candidate", digits: 2 },
          ),
        ),
      );
    if (plots.length) parts.push(h("div", { class: "pair" }, plots));
    if (run.trials.length)
      parts.push(
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
                ["Candidate", "seconds", "dev F1", ""].map((name) => h("th", { scope: "col" }, name)),
              ),
            ),
            h(
              "tbody",
              {},
              run.trials.map((trial) =>
                h(
                  "tr",
                  {},
                  h("th", { scope: "row" }, trial.name),
                  h("td", {}, number(trial.seconds, 1)),
                  h("td", {}, number(trial.f1, 2)),
                  h("td", {}, trial.verdict),
                ),
              ),
            ),
          ),
        ),
      );
    const report = run.report;
    if (report) {
      parts.push(
        h(
          "dl",
          { class: "plain" },
          report.dev
            ? [
                h("dt", {}, "dev F1"),
                h(
                  "dd",
                  {},
                  h("b", {}, number(report.dev.f1, 2)),
                  ` on ${plural(report.dev.sentences, "sentence")}`,
                ),
              ]
            : null,
          h("dt", {}, "states"),
          h("dd", {}, String(report.most_states)),
          h("dt", {}, "rules"),
          h("dd", {}, report.rules.toLocaleString("en")),
          h("dt", {}, "words"),
          h("dd", {}, report.words.toLocaleString("en")),
        ),
      );
      if (run.model)
        parts.push(
          h(
            "div",
            { class: "bar" },
            h("a", { class: "button", href: addressOf("parse", { model: run.model }) }, "Try it"),
            linkTo("states", { model: run.model }, "Look at its states"),
            h(
              "a",
              { href: `/api/models/${run.model}/file`, download: `${run.model}.sapwood` },
              "Download the model",
            ),
          ),
        );
    }
    put(progress, h("section", { class: "card", "aria-label": "Training" }, parts));
  }

  showSource();
  poll();
  return () => {
    isHere = false;
    clearTimeout(clock);
  };
}
