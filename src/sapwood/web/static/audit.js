// Audit: a treebank in, its likely errors out, with both trees of each.

import { get, remove, upload } from "/static/api.js";
import { mountAudit } from "/static/audit-walk.js";
import { announce, choose, failure, field, h, number, plural, put } from "/static/dom.js";

const PERIOD = 500; // milliseconds between two requests for the state of a running audit
const SOURCES = [
  ["upload", "a treebank of my own"],
  ["bundled", "the bundled dev trees"],
];
const LEAD =
  "Which annotations of a treebank are probably wrong: every sentence is judged by models that were learnt " +
  "from the others. Brackets or CoNLL-U; what you upload stays on this machine, and goes when the server " +
  "stops. One audit runs at a time. Decisions are kept in this browser, and saved for `sapwood audit --apply`.";

export function mount(root, { state, set }) {
  const view = new AuditView(root, { state, set });
  view.showSource();
  view.poll();
  return () => view.leave();
}

class AuditView {
  constructor(root, { state, set }) {
    Object.assign(this, { state, set });
    this.isOpen = true; // until another view is shown
    this.isRunning = false;
    this.shown = null; // the audit whose findings are on show
    this.timer = null;
    this.leaveWalk = null;
    this.page = buildAuditPage(root, this);
  }

  leave() {
    this.isOpen = false;
    clearTimeout(this.timer);
    this.leaveWalk?.();
  }

  showSource() {
    const { source, file, sourceField, startButton } = this.page;
    const isOwn = source.value === "upload";
    put(sourceField, isOwn ? field("File", file) : null);
    startButton.disabled = this.isRunning || (isOwn && !file.files[0]);
  }

  async begin() {
    const { source, file, folds, speed, problem } = this.page;
    put(problem);
    try {
      const isOwn = source.value === "upload";
      const bytes = isOwn ? await file.files[0].arrayBuffer() : new Uint8Array();
      const query = new URLSearchParams({
        title: isOwn ? file.files[0].name : "",
        folds: folds.value || "5",
        is_fast: String(speed.value === "fast"),
      });
      if (isOwn && !bytes.byteLength) throw new Error("The file is empty.");
      await upload(`audit?${query}`, bytes);
      announce("The audit has begun");
      this.poll();
    } catch (error) {
      put(problem, failure(error));
    }
  }

  async cancel() {
    try {
      await remove("audit");
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
      const run = await get("audit");
      if (!this.isOpen) return;
      put(progress, run.state ? runCard(run) : null);
      if (this.isRunning && run.state !== "running") announce(`The audit is ${run.state}`);
      this.isRunning = run.state === "running";
      cancelButton.hidden = !this.isRunning;
      this.showSource();
      if (run.state === "done" && this.shown !== run.audit) await this.showFindings(run.audit);
      if (this.isRunning) this.timer = setTimeout(() => this.poll(), PERIOD);
    } catch (error) {
      put(problem, failure(error));
    }
  }

  async showFindings(name) {
    const report = await get("audit/report");
    if (!this.isOpen) return;
    this.shown = name;
    this.leaveWalk?.();
    put(this.page.findings);
    this.leaveWalk = mountAudit(this.page.findings, report, report.name);
  }
}

function buildAuditPage(root, view) {
  const { state, set } = view;
  const file = h("input", {
    type: "file",
    "aria-label": "A treebank file",
    onchange: () => view.showSource(),
  });
  const folds = h("input", { type: "number", min: "2", max: "20", value: state.folds ?? "5" });
  folds.addEventListener("input", () => set({ folds: folds.value }));
  const page = {
    file,
    folds,
    source: choose(SOURCES, state.source ?? "upload", (value) => {
      set({ source: value });
      view.showSource();
    }),
    speed: choose(
      [
        ["fast", "fast: minutes"],
        ["best", "best: with a network, may take hours"],
      ],
      state.speed ?? "fast",
      (value) => set({ speed: value }),
    ),
    sourceField: h("div", {}),
    startButton: h("button", { type: "submit", class: "primary" }, "Audit"),
    cancelButton: h("button", { type: "button", hidden: true, onclick: () => view.cancel() }, "Cancel"),
    problem: h("div", {}),
    progress: h("div", { class: "stack" }),
    findings: h("div", { class: "audit-findings" }),
  };
  const onsubmit = (event) => {
    event.preventDefault();
    view.begin();
  };
  root.append(
    h("h1", {}, "Audit"),
    h("p", { class: "lead" }, LEAD),
    h(
      "form",
      { class: "card", "aria-label": "Treebank", onsubmit },
      h(
        "div",
        { class: "bar" },
        field("Audit", page.source),
        page.sourceField,
        field("Models", page.speed),
        field("Folds", folds),
        page.startButton,
        page.cancelButton,
      ),
      page.problem,
    ),
    h("p", {}),
    page.progress,
    h("p", {}),
    page.findings,
  );
  return page;
}

// run: the answer of GET /api/audit.
function runCard(run) {
  const seconds = `${number(run.seconds, 1)} s`;
  const fraction = run.progress?.fraction ?? null;
  const isRunning = run.state === "running";
  const status = isRunning
    ? [
        h("span", { class: "spin", "aria-hidden": "true" }),
        `${(run.progress?.steps ?? ["starting"]).join(" · ")}, ${seconds}`,
      ]
    : `${run.state} after ${seconds}`;
  return h(
    "section",
    { class: "card", "aria-label": "Audit" },
    h(
      "header",
      {},
      h("h2", {}, run.title),
      h("span", { class: "facts", role: "status", "data-state": run.state }, status),
    ),
    isRunning && fraction !== null
      ? h("div", { class: "track" }, h("i", { style: { width: `${100 * fraction}%` } }))
      : null,
    run.error ? failure({ message: run.error, hint: run.hint }) : null,
    run.report
      ? h(
          "p",
          { class: "facts" },
          plural(run.report.findings, "finding"),
          ` shown, of ${plural(run.report.trees, "tree")}`,
        )
      : null,
  );
}
