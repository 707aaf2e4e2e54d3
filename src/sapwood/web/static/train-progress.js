// A training run as it is watched: its phases, curves, candidates, and the model in the end.

import { failure, h, number, plural } from "/static/dom.js";
import { addressOf, linkTo } from "/static/main.js";
import { curve } from "/static/plots.js";

// run: the answer of GET /api/train.
export function progressCard(run) {
  const plots = curves(run);
  return h(
    "section",
    { class: "card", "aria-label": "Training" },
    runHeader(run),
    phaseList(run),
    run.read ? h("p", { class: "facts" }, dataText(run.read)) : null,
    run.error ? failure({ message: run.error, hint: run.hint }) : null,
    plots.length ? h("div", { class: "pair" }, plots) : null,
    run.trials.length ? candidateTable(run.trials) : null,
    run.report ? modelFacts(run.report) : null,
    run.report && run.model ? modelLinks(run.model) : null,
  );
}

function runHeader(run) {
  const seconds = `${number(run.seconds, 1)} s`;
  const status =
    run.state === "running"
      ? [
          h("span", { class: "spin", "aria-hidden": "true" }),
          `${run.phases.at(-1)?.name ?? "starting"}, ${seconds}`,
        ]
      : `${run.state} after ${seconds}`;
  return h(
    "header",
    {},
    h("h2", {}, `${run.method}, ${run.treebank === "bundled" ? "bundled trees" : run.treebank}`),
    h("span", { class: "facts", role: "status", "data-state": run.state }, status),
  );
}

function phaseList(run) {
  const isCurrent = (k) => run.state === "running" && k === run.phases.length - 1;
  const items = run.phases.map((phase, k) =>
    h("li", { "aria-current": isCurrent(k) ? "step" : null }, phase.name),
  );
  return h("ol", { class: "steps" }, items);
}

const dataText = (read) =>
  [
    plural(read.trees, "tree"),
    plural(read.words, "word"),
    read.dev ? plural(read.dev, "dev tree") : "no dev trees",
  ].join(", ");

// A curve is drawn from its second point on.
function curves(run) {
  const graded = run.trials.filter((trial) => trial.f1 !== null && trial.f1 !== undefined);
  const plot = (points, caption, options) =>
    points.length > 1 ? [h("div", {}, h("p", { class: "small" }, caption()), curve(points, options))] : [];
  return [
    ...plot(
      run.iterations.map(([n, , log]) => [n, log]),
      () => `Log-likelihood, ${plural(run.iterations.at(-1)[1], "state")}`,
      { title: "Log-likelihood by iteration" },
    ),
    ...plot(run.grades, () => "Dev F1", { title: "Dev F1 by iteration", digits: 2 }),
    ...plot(
      graded.map((trial, k) => [k + 1, trial.f1]),
      () => "Dev F1 of candidates",
      { title: "Dev F1 by candidate", digits: 2 },
    ),
  ];
}

function candidateTable(trials) {
  const row = (trial) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, trial.name),
      h("td", {}, number(trial.seconds, 1)),
      h("td", {}, number(trial.f1, 2)),
      h("td", {}, trial.verdict),
    );
  const names = ["Candidate", "seconds", "dev F1", ""].map((name) => h("th", { scope: "col" }, name));
  return h(
    "div",
    { class: "scroll" },
    h("table", {}, h("thead", {}, h("tr", {}, names)), h("tbody", {}, trials.map(row))),
  );
}

function modelFacts(report) {
  const { dev } = report;
  const facts = [
    ["states", String(report.most_states)],
    ["rules", report.rules.toLocaleString("en")],
    ["words", report.words.toLocaleString("en")],
  ];
  if (dev)
    facts.unshift(["dev F1", [h("b", {}, number(dev.f1, 2)), ` on ${plural(dev.sentences, "sentence")}`]]);
  return h(
    "dl",
    { class: "plain" },
    facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

function modelLinks(model) {
  return h(
    "div",
    { class: "bar" },
    h("a", { class: "button", href: addressOf("parse", { model }) }, "Try it"),
    linkTo("states", { model }, "Look at its states"),
    h("a", { href: `/api/models/${model}/file`, download: `${model}.sapwood` }, "Download the model"),
  );
}
