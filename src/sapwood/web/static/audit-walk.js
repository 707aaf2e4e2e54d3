// Walking the findings of an audit with the keyboard: filters, the list, the finding on show, decisions, exports.

import { Decisions, decisionsFile, patchOf } from "/static/audit-decisions.js";
import { changeOf, DONE, findingView, KEYS, shortPlaceOf } from "/static/audit-finding.js";
import { auditHelp, trustPanel } from "/static/audit-trust.js";
import { announce, choose, field, h, percent, plural, put } from "/static/dom.js";
import { save } from "/static/exports.js";

const STEPS = { j: 1, ArrowDown: 1, ArrowRight: 1, k: -1, ArrowUp: -1, ArrowLeft: -1 };
const STATES = { "": "all", open: "undecided", accept: "accepted", reject: "rejected", skip: "skipped" };
// Elements that handle keys themselves.
const TYPING = "input, select, textarea, summary, .node, dialog";

// report: the answer of `sapwood audit --json` with `files` and `drawings`; name: the key of its decisions in the
// browser's storage.
// Returns a function that stops listening to the keyboard.
export function mountAudit(root, report, name) {
  const walk = new Walk(report, name);
  root.append(walk.element);
  walk.filter();
  const onkeydown = (event) => walk.press(event);
  document.addEventListener("keydown", onkeydown);
  return () => document.removeEventListener("keydown", onkeydown);
}

class Walk {
  constructor(report, name) {
    this.report = report;
    this.decisions = new Decisions(name, report.findings);
    this.wanted = { kind: "", label: "", file: "", state: "", expected: "" };
    this.shown = []; // the findings that pass the filters
    this.current = null; // one of them
    this.list = h("ol", { class: "audit-list", "aria-label": "Findings" });
    this.place = h("div", { class: "audit-place" });
    this.facts = h("p", { class: "facts", role: "status" });
    this.says = h("span", { class: "facts", role: "status" });
    this.help = auditHelp();
    this.element = h(
      "div",
      { class: "audit" },
      this.toolbar(),
      this.facts,
      h("div", { class: "audit-split" }, h("div", {}, this.list), this.place),
      trustPanel(report.trust ?? {}),
      this.help,
    );
  }

  toolbar() {
    const { findings } = this.report;
    const partsOf = (finding) => [finding, ...(finding.parts ?? [])];
    const pick = (name, title, values) =>
      field(
        title,
        choose(
          values,
          "",
          (value) => {
            this.wanted[name] = value;
            this.filter();
          },
          { "data-filter": name },
        ),
      );
    const all = (values) => [
      ["", "all"],
      ...[...new Set(values)]
        .filter(Boolean)
        .sort()
        .map((one) => [one, one]),
    ];
    const labels = (finding) => partsOf(finding).flatMap((part) => [part.annotated, part.suggested]);
    const levels = [0.9, 0.7, 0.5, 0.3, 0.1].map((level) => [String(level), `at least ${percent(level)}`]);
    return h(
      "div",
      { class: "bar audit-tools" },
      pick("kind", "Kind", all(findings.flatMap((finding) => partsOf(finding).map((part) => part.kind)))),
      pick("label", "Label", all(findings.flatMap(labels))),
      pick("file", "File", all(findings.map((finding) => finding.file))),
      pick("state", "Decision", Object.entries(STATES)),
      pick("expected", "Expected precision", [["", "all"], ...levels]),
      h(
        "button",
        { type: "button", "data-do": "previous", onclick: () => this.step(-1) },
        "Previous ",
        h("kbd", {}, "k"),
      ),
      h(
        "button",
        { type: "button", "data-do": "next", onclick: () => this.step(1) },
        "Next ",
        h("kbd", {}, "j"),
      ),
      h(
        "button",
        { type: "button", class: "primary", "data-do": "decisions", onclick: () => this.saveDecisions() },
        "Save decisions",
      ),
      h("button", { type: "button", "data-do": "patch", onclick: () => this.savePatch() }, "Save patch"),
      h(
        "button",
        { type: "button", "data-do": "help", onclick: () => this.help.showModal() },
        "Help ",
        h("kbd", {}, "?"),
      ),
      this.says,
    );
  }

  isWanted(finding) {
    const { kind, label, file, state, expected } = this.wanted;
    const parts = [finding, ...(finding.parts ?? [])];
    const made = this.decisions.of(finding.id);
    return (
      (!kind || parts.some((part) => part.kind === kind)) &&
      (!label || parts.some((part) => part.annotated === label || part.suggested === label)) &&
      (!file || finding.file === file) &&
      (!state || (state === "open" ? made === null : made === state)) &&
      (!expected || finding.expected_precision >= Number(expected))
    );
  }

  filter() {
    this.shown = this.report.findings.filter((finding) => this.isWanted(finding));
    if (!this.shown.includes(this.current)) this.current = this.shown[0] ?? null;
    put(
      this.list,
      this.shown.map((finding) => this.listItem(finding)),
    );
    this.show();
  }

  listItem(finding) {
    const made = this.decisions.of(finding.id);
    return h(
      "li",
      { "data-id": finding.id, "data-made": made },
      h(
        "button",
        { type: "button", class: "quiet", onclick: () => this.go(finding) },
        h("b", {}, `${finding.rank}. ${changeOf(finding)}`),
        h(
          "small",
          {},
          `${finding.kind} · ${shortPlaceOf(finding)}${made ? ` · ${this.doneOf(finding)}` : ""}`,
        ),
      ),
    );
  }

  doneOf(finding) {
    const made = this.decisions.of(finding.id);
    if (made !== "accept" || !this.decisions.isMixed(finding.id)) return DONE[made];
    const all = this.decisions.ofParts(finding);
    return `${all.filter((one) => one === "accept").length} of ${all.length} parts accepted`;
  }

  itemOf(finding) {
    return [...this.list.children].find((item) => item.dataset.id === finding.id);
  }

  go(finding) {
    this.current = finding;
    this.show();
    announce(`Finding ${finding.rank}: ${finding.kind}, ${changeOf(finding)}`);
  }

  step(by) {
    const to = this.shown[this.shown.indexOf(this.current) + by];
    if (to) this.go(to);
  }

  show() {
    const { findings, drawings } = this.report;
    const count = (name) => this.decisions.count(name);
    const counts = Object.entries(DONE).map(([name, done]) => `${count(name)} ${done}`);
    const kept = this.decisions.isKept ? "" : "; this browser keeps no decisions: save them before you leave";
    const shown = `${plural(this.shown.length, "finding")} of ${findings.length}`;
    this.facts.textContent = `${shown}: ${counts.join(", ")}${kept}`;
    for (const item of this.list.children) item.removeAttribute("aria-current");
    if (!this.current) {
      put(
        this.place,
        h("p", { class: "none" }, findings.length ? "No finding passes the filters." : "Nothing was found."),
      );
      return;
    }
    const { id } = this.current;
    const view = findingView(this.current, drawings?.[id], this.decisions.ofParts(this.current), {
      ondecide: (made) => this.decide(made, false),
      onpart: (index, made) => this.decidePart(index, made),
    });
    put(this.place, view.element);
    view.show();
    const item = this.itemOf(this.current);
    item.setAttribute("aria-current", "true");
    this.list.scrollTop = item.offsetTop - this.list.clientHeight / 3;
  }

  // A decision by key goes on to the next finding.
  decide(made, isMoving) {
    const finding = this.current;
    if (!finding) return;
    const index = this.shown.indexOf(finding);
    this.decisions.set(finding.id, made);
    const next = this.shown[index + 1];
    if (isMoving && next) this.current = next;
    if (this.wanted.state) {
      this.filter();
    } else {
      this.itemOf(finding).replaceWith(this.listItem(finding));
      this.show();
    }
    announce(made ? `Finding ${finding.rank} ${DONE[made]}` : `Finding ${finding.rank} is undecided again`);
  }

  // A decision on one part stays at the finding, with the focus on its row.
  decidePart(index, made) {
    const finding = this.current;
    this.decisions.setPart(finding, index, made);
    this.itemOf(finding).replaceWith(this.listItem(finding));
    this.show();
    this.place.querySelector(`[data-part="${index}"]`)?.focus();
    announce(`Part ${index + 1} ${made ? DONE[made] : "is undecided again"}`);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (event.target.closest?.(TYPING)) return;
    const decision = Object.keys(KEYS).find((name) => KEYS[name] === event.key);
    const part = /^[1-9]$/.test(event.key) && this.place.querySelector(`[data-part="${event.key - 1}"]`);
    if (part) part.focus();
    else if (event.key in STEPS) this.step(STEPS[event.key]);
    else if (decision) this.decide(decision, true);
    else if (event.key === "u") this.decide(null, false);
    else if (event.key === "?") this.help.showModal();
    else return;
    event.preventDefault();
  }

  saveDecisions() {
    save(
      "decisions.json",
      new Blob([decisionsFile(this.report, this.decisions)], { type: "application/json" }),
    );
    this.says.textContent = `decisions.json saved: ${plural(Object.keys(this.decisions.made).length, "decision")}`;
  }

  savePatch() {
    const { text, nOmitted } = patchOf(this.report, this.decisions);
    if (!text) {
      this.says.textContent = "Nothing to save: no finding with known lines is accepted";
      return;
    }
    save("corrections.patch", new Blob([text], { type: "text/x-diff" }));
    const rest = nOmitted
      ? `; ${plural(nOmitted, "correction")} cannot be in a patch: use decisions.json`
      : "";
    this.says.textContent = `corrections.patch saved${rest}`;
  }
}
