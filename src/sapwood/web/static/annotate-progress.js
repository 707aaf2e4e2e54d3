// How far the annotation is, how good the model is, and what more trees are expected to bring.

import { busy, h, number, plural, put, s } from "/static/dom.js";

const SIZE = { width: 300, height: 170, left: 34, right: 12, top: 12, bottom: 26 };
const STATES = {
  none: "none is learnt yet",
  waiting: "is learnt again soon",
  learning: "is being learnt",
  ready: "ready",
};

// points: [{ trees, score, low, high }]; expected: { more_trees, gain, low, high } or null.
export function learningCurve(points, expected, measure) {
  const { width, height, left, right, top, bottom } = SIZE;
  const last = points.at(-1);
  const ahead = expected && {
    trees: last.trees + expected.more_trees,
    score: last.score + expected.gain,
    low: last.score + expected.low,
    high: last.score + expected.high,
  };
  const all = [...points, ...(ahead ? [ahead] : [])];
  const lows = all.map((point) => point.low ?? point.score);
  const highs = all.map((point) => point.high ?? point.score);
  const [y0, y1] = [
    Math.max(0, Math.floor(Math.min(...lows) / 5) * 5),
    Math.ceil(Math.max(...highs) / 5) * 5,
  ];
  const [x0, x1] = [
    Math.min(...all.map((point) => point.trees)),
    Math.max(...all.map((point) => point.trees), 1),
  ];
  const x = (trees) => left + ((trees - x0) / Math.max(1, x1 - x0)) * (width - left - right);
  const y = (score) => height - bottom - ((score - y0) / Math.max(1e-9, y1 - y0)) * (height - top - bottom);
  const at = (point, value) => `${x(point.trees).toFixed(1)} ${y(value).toFixed(1)}`;
  const line = (list) => list.map((point, k) => `${k ? "L" : "M"}${at(point, point.score)}`).join("");
  const band = [
    ...points.map((p) => at(p, p.high ?? p.score)),
    ...[...points].reverse().map((p) => at(p, p.low ?? p.score)),
  ];
  const rows = points.map((p) => `${number(p.score, 1)} at ${p.trees}`);
  const says = `${measure} by the number of trees: ${rows.join(", ")}`;
  return s(
    "svg",
    { class: "plot desk-curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": says },
    [y0, (y0 + y1) / 2, y1].map((value) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      s("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, value % 1 ? 1 : 0)),
    ]),
    s("path", { class: "band", d: `M${band.join("L")}z` }),
    s("path", { class: "curve", d: line(points) }),
    points.map((point) => s("circle", { class: "dot", cx: x(point.trees), cy: y(point.score), r: 2.5 })),
    ahead
      ? [
          s("path", { class: "ahead", d: line([last, ahead]) }),
          s("path", { class: "whisker", d: `M${at(ahead, ahead.low)}L${at(ahead, ahead.high)}` }),
          s("circle", { class: "dot", cx: x(ahead.trees), cy: y(ahead.score), r: 3.5 }),
        ]
      : [],
    s("text", { x: left, y: height - 8 }, x0.toLocaleString("en")),
    s("text", { x: width - right, y: height - 8, "text-anchor": "end" }, `${x1.toLocaleString("en")} trees`),
  );
}

const signed = (value) => `${value < 0 ? "−" : "+"}${number(Math.abs(value), 1)}`;

function modelLine(model) {
  if (!model) return null;
  const state = STATES[model.state] ?? model.state;
  const trees = model.n_trees ? `learnt from ${plural(model.n_trees, "tree")}` : state;
  const seconds = model.seconds ? ` in ${number(model.seconds, 1)} s` : "";
  const facts = h(
    "p",
    { class: "facts" },
    h("span", {}, h("b", {}, model.name ?? "No model"), `: ${trees}${seconds}`),
  );
  const isSaid = model.message && !/^learnt from [\d,]+ trees?\.?$/i.test(model.message);
  return [
    model.state === "learning" && model.network?.state !== "running" ? busy(`The model ${state}`) : facts,
    isSaid ? h("p", { class: "facts" }, model.message) : null,
  ];
}

// How far the training of a network is; the message of the model says it in words.
function trainingTrack({ done, passes }) {
  const bar = h("i", { style: { width: `${(100 * done) / Math.max(1, passes)}%` } });
  const range = { "aria-valuemin": "0", "aria-valuemax": String(passes), "aria-valuenow": String(done) };
  return h(
    "div",
    { class: "track", role: "progressbar", "aria-label": "Passes of the network", ...range },
    bar,
  );
}

// hooks: onlearn(network), which ends the training of a network that runs. Returns { element,
// showProject(project), showLearning(learning) }.
export function progressCard({ onlearn }) {
  const counts = h("div", {});
  const model = h("div", { role: "status", class: "desk-model" });
  const curve = h("div", {});
  const learn = h("button", { type: "button", class: "chip", onclick: () => onlearn(false) }, "Learn now");
  const network = h(
    "button",
    { type: "button", class: "chip", onclick: () => onlearn(true) },
    "Learn with a network",
  );
  const element = h(
    "section",
    { class: "card", "aria-label": "Progress" },
    h("h2", {}, "Progress"),
    counts,
    model,
    curve,
    h("div", { class: "chips" }, learn, network),
  );
  const setModel = (told) => {
    const isTraining = told?.network?.state === "running";
    const isLearning = told?.state === "learning" && !isTraining;
    put(model, modelLine(told), isTraining ? trainingTrack(told.network) : null);
    learn.disabled = isLearning;
    network.textContent = isTraining ? "End the training of the network" : "Learn with a network";
  };
  return {
    element,
    showProject(project) {
      network.hidden = !project.can_network;
      const { sentences, accepted, skipped, words_accepted } = project.counts;
      put(
        counts,
        h(
          "div",
          {
            class: "track",
            role: "progressbar",
            "aria-label": "Accepted sentences",
            "aria-valuemin": "0",
            "aria-valuemax": String(sentences),
            "aria-valuenow": String(accepted),
          },
          h("i", { style: { width: `${(100 * accepted) / Math.max(1, sentences)}%` } }),
        ),
        h(
          "p",
          { class: "facts", "data-accepted": accepted },
          h(
            "span",
            {},
            h("b", {}, accepted.toLocaleString("en")),
            ` of ${plural(sentences, "sentence")} accepted`,
          ),
          h("span", {}, plural(words_accepted, "word")),
          skipped ? h("span", {}, `${skipped.toLocaleString("en")} skipped`) : null,
        ),
      );
      setModel(project.model);
    },
    showLearning(learning) {
      const { points = [], expected, measure = "F1" } = learning;
      const last = points.at(-1);
      put(
        curve,
        points.length > 1 ? learningCurve(points, expected, measure) : null,
        last
          ? h(
              "p",
              { class: "facts" },
              h("span", {}, `${measure} on trees left out: `, h("b", {}, number(last.score, 1))),
              expected
                ? h(
                    "span",
                    {},
                    `${expected.more_trees} more trees: `,
                    h("b", {}, signed(expected.gain)),
                    ` (${signed(expected.low)} to ${signed(expected.high)})`,
                  )
                : null,
            )
          : null,
      );
      setModel(learning.model ?? learning);
    },
  };
}
