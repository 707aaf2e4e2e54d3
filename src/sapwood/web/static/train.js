// Train: learns a model from a treebank and shows the progress.

import { ask, get, remove, upload } from "/static/api.js";
import { announce, busy, choose, failure, field, h, plural, put } from "/static/dom.js";
import { progressCard } from "/static/train-progress.js";

const PERIOD = 400; // milliseconds between two requests for the state of a running training
const SOURCES = [
  ["bundled", "the bundled treebank, 3,000 trees"],
  ["upload", "one of my own"],
];
const DEV_SETS = [
  ["bundled", "the bundled dev trees"],
  ["hold-out", "every tenth tree, held out"],
  ["none", "nothing"],
];
const LEAD =
  "Learn a grammar here and now, from the bundled trees or from your own. One training runs at a time, " +
  "in a process of its own; what you upload stays on this machine, and goes when the server stops.";

export function mount(root, { state, set, methods }) {
  const view = new TrainView(root, { state, set, methods });
  view.showSource();
  view.poll();
  return () => view.leave();
}

// The state of the view. `state` and `set` are those of the address; `page` holds the elements.
class TrainView {
  constructor(root, { state, set, methods }) {
    Object.assign(this, { state, set, methods });
    this.treebank = state.treebank ?? "bundled"; // null while there is none to learn from
    this.isOpen = true; // until another view is shown
    this.isRunning = false;
    this.timer = null;
    this.page = buildTrainPage(root, this);
  }

  leave() {
    this.isOpen = false;
    clearTimeout(this.timer);
  }

  // -- the treebank --

  chooseSource(value) {
    this.treebank = value === "bundled" ? "bundled" : null;
    this.set({ treebank: null });
    this.showSource();
  }

  showSource() {
    const { source, sourceField, file, checked, dev } = this.page;
    const isOwn = source.value === "upload";
    put(sourceField, isOwn ? file : null);
    put(checked, isOwn ? this.pasteFields() : null);
    const choices = isOwn ? DEV_SETS.filter(([value]) => value !== "bundled") : DEV_SETS;
    put(
      dev,
      ...choices.map(([value, text]) => h("option", { value, selected: value === this.state.dev }, text)),
    );
    this.showOptions();
  }

  pasteFields() {
    const { pasted, verdict } = this.page;
    const onclick = () => this.send("pasted", new TextEncoder().encode(pasted.value));
    put(verdict);
    return [
      field("Or paste trees here", pasted, { grow: true }),
      h("button", { type: "button", onclick }, "Check these"),
      verdict,
    ];
  }

  // Uploads a treebank and shows what the server read of it.
  async send(title, bytes) {
    const { verdict } = this.page;
    put(verdict, busy("Reading"));
    this.treebank = null;
    try {
      const report = await upload(`treebanks?title=${encodeURIComponent(title)}`, bytes);
      this.treebank = report.treebank;
      this.set({ treebank: report.treebank });
      put(verdict, ...treebankParts(report));
      announce(`${plural(report.trees, "tree")} read, ${plural(report.n_errors, "error")}`);
    } catch (error) {
      put(verdict, failure(error));
    }
    this.showOptions();
  }

  // -- the method --

  chooseMethod(value) {
    this.set({ method: value });
    this.showOptions();
  }

  showOptions() {
    const { method, budgetField, statesField, startButton } = this.page;
    budgetField.hidden = !this.methods[method.value]?.has_budget;
    statesField.hidden = !this.methods[method.value]?.has_states;
    startButton.disabled = this.isRunning || this.treebank === null;
  }

  // -- the run --

  async begin() {
    const { problem, dev, method, states, budget } = this.page;
    put(problem);
    try {
      await ask("train", {
        treebank: this.treebank ?? "bundled",
        dev: dev.value,
        method: method.value,
        states: Number(states.value) || 8,
        ...(this.methods[method.value].has_budget ? { budget: Number(budget.value) || 30 } : {}),
      });
      announce("Training has begun");
      this.poll();
    } catch (error) {
      put(problem, failure(error));
    }
  }

  async cancel() {
    try {
      await remove("train");
    } catch (error) {
      put(this.page.problem, failure(error));
    }
    this.poll();
  }

  // Requests the state of the run, and repeats the request while the run lasts.
  async poll() {
    const { progress, problem, cancelButton } = this.page;
    clearTimeout(this.timer);
    if (!this.isOpen) return;
    try {
      const run = await get("train");
      if (!this.isOpen) return;
      put(progress, run.state ? progressCard(run) : null);
      if (this.isRunning && run.state !== "running") announce(`Training ${run.state}`);
      this.isRunning = run.state === "running";
      cancelButton.hidden = !this.isRunning;
      this.showOptions();
      if (this.isRunning) this.timer = setTimeout(() => this.poll(), PERIOD);
    } catch (error) {
      put(problem, failure(error));
    }
  }
}

function buildTrainPage(root, view) {
  const page = { ...buildSource(view), ...buildMethod(view) };
  const { source, sourceField, checked, method, statesField, budgetField, dev } = page;
  page.problem = h("div", {});
  page.progress = h("div", { class: "stack" });
  const onsubmit = (event) => {
    event.preventDefault();
    view.begin();
  };
  root.append(
    h("h1", {}, "Train"),
    h("p", { class: "lead" }, LEAD),
    h(
      "form",
      { class: "stack", onsubmit },
      h(
        "section",
        { class: "card", "aria-label": "Treebank" },
        h("div", { class: "bar" }, field("Learn from", source), sourceField),
        checked,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Method" },
        h("div", { class: "bar" }, field("Method", method), statesField, budgetField, field("Score on", dev)),
        h("div", { class: "bar" }, page.startButton, page.cancelButton),
        page.problem,
      ),
    ),
    h("p", {}),
    page.progress,
  );
  return page;
}

function buildSource(view) {
  const file = h("input", {
    type: "file",
    "aria-label": "A treebank file",
    onchange: async () => {
      if (file.files[0]) view.send(file.files[0].name, await file.files[0].arrayBuffer());
    },
  });
  return {
    source: choose(SOURCES, view.treebank === "bundled" ? "bundled" : "upload", (value) =>
      view.chooseSource(value),
    ),
    sourceField: h("div", {}),
    file,
    pasted: h("textarea", {
      rows: 4,
      spellcheck: false,
      dir: "auto",
      "aria-label": "Trees in brackets",
      placeholder: "(S (NP (NNS dogs)) (VP (VBP bark)))",
    }),
    checked: h("div", { "aria-live": "polite" }),
    verdict: h("div", { class: "verdict" }), // what the server read of an uploaded treebank
  };
}

function buildMethod(view) {
  const { state, set, methods } = view;
  const names = Object.entries(methods).map(([name, { summary }]) => [name, `${name}: ${summary}`]);
  const numberInput = (name, usual, max) => {
    const oninput = () => set({ [name]: input.value });
    const input = h("input", { type: "number", min: "1", max, value: state[name] ?? usual, oninput });
    return input;
  };
  const states = numberInput("states", "8", "64");
  const budget = numberInput("budget", "30", "3600");
  const dev = h("select", { onchange: () => set({ dev: dev.value }) });
  return {
    method: choose(names, state.method ?? "spectral", (value) => view.chooseMethod(value)),
    states,
    statesField: field("States of a label, at most", states),
    budget,
    budgetField: field("Budget, seconds", budget),
    dev,
    startButton: h("button", { type: "submit", class: "primary" }, "Train"),
    cancelButton: h("button", { type: "button", hidden: true, onclick: () => view.cancel() }, "Cancel"),
  };
}

// What was read of an uploaded treebank, and each tree that cannot be read with its place.
function treebankParts(report) {
  const { n_errors } = report;
  const fact = (value, noun) => h("span", {}, h("b", {}, value.toLocaleString("en")), ` ${noun}`);
  const counts = [fact(report.trees, "trees"), fact(report.words, "words"), fact(report.labels, "labels")];
  const leftOut = report.treebank ? " and will be left out" : "";
  const tooFew = { message: "Too few trees to learn from.", hint: "Two good ones are needed at least." };
  return [
    h("p", { class: "facts" }, counts),
    n_errors
      ? h("div", { class: "notice" }, h("p", {}, `${plural(n_errors, "tree")} cannot be read${leftOut}:`))
      : null,
    n_errors ? report.errors.map(treeError) : null,
    report.treebank ? null : failure(tooFew),
  ];
}

function treeError(error) {
  const column = error.column ? `, column ${error.column}` : "";
  const caret = h("span", { class: "caret" }, `${" ".repeat(error.at)}▲`);
  return h(
    "div",
    {},
    h("p", { class: "small" }, `Line ${error.line ?? "?"}${column}: ${error.error}`),
    h("pre", { class: "source" }, error.excerpt, "\n", caret),
    error.hint ? h("p", { class: "facts" }, error.hint) : null,
  );
}
