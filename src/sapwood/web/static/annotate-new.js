// A new project: its title, what is annotated, the text, the model that it starts from. And more text for one that is
// there already.

import { ask, get, upload } from "/static/api.js";
import { busy, choose, failure, field, h, plural, put } from "/static/dom.js";

const KINDS = [
  ["trees", "phrase trees"],
  ["dependencies", "dependencies"],
];
const DIRECTIONS = [
  ["auto", "as its letters are"],
  ["ltr", "left to right"],
  ["rtl", "right to left"],
];
const FORMATS = {
  trees: [
    ["text", "running text"],
    ["raw", "one sentence a line, words parted by blanks"],
    ["brackets", "trees in brackets"],
    ["findings", "findings of an audit (JSON)"],
  ],
  dependencies: [
    ["text", "running text"],
    ["raw", "one sentence a line, words parted by blanks"],
    ["conllu", "CoNLL-U"],
    ["findings", "findings of an audit (JSON)"],
  ],
};
const TREES_IN = new Set(["brackets", "conllu"]);
const LEAD =
  "A project is a folder on this machine: text in, one sentence at a time on show, trees out in plain files. The " +
  "parser proposes a tree for each sentence, you mend it, and a model is learnt as soon as some trees are accepted.";

// Text that is pasted or comes from a file. Returns { element, format, text(), document(), isEmpty() }.
function textPart(kind, onchange = () => {}) {
  const box = h("textarea", {
    rows: "7",
    dir: "auto",
    spellcheck: "false",
    "aria-label": "Text",
    placeholder: "Paste text here, or choose a file.",
    oninput: () => onchange(),
  });
  let name = "pasted";
  const file = h("input", {
    type: "file",
    "aria-label": "A file with the text",
    onchange: async () => {
      if (!file.files[0]) return;
      name = file.files[0].name;
      box.value = await file.files[0].text();
      part.format.value = formatOf(name, part.kind) ?? part.format.value;
      onchange();
    },
  });
  const part = {
    kind,
    format: choose(FORMATS[kind], "text", () => onchange()),
    text: () => box.value,
    document: () => name,
    isEmpty: () => !box.value.trim(),
    setKind(to) {
      part.kind = to;
      const wanted = part.format.value;
      put(
        part.format,
        FORMATS[to].map(([key, text]) => h("option", { value: key, selected: key === wanted }, text)),
      );
    },
  };
  part.element = h(
    "div",
    {},
    h("div", { class: "bar" }, field("The text is", part.format), field("File", file)),
    box,
  );
  return part;
}

function formatOf(name, kind) {
  if (/\.(mrg|ptb|brackets|psd)$/i.test(name) && kind === "trees") return "brackets";
  if (/\.conllu?$/i.test(name) && kind === "dependencies") return "conllu";
  return /\.json$/i.test(name) ? "findings" : null;
}

// "NP = SN", one a line, as an object.
function labelMap(text) {
  const rows = text.split("\n").map((line) => line.split(/\s*(?:=>|→|=|\t)\s*/));
  const wrong = rows.findIndex(
    (row) => row.join("").trim() && (row.length !== 2 || !row[0].trim() || !row[1].trim()),
  );
  if (wrong >= 0) {
    const error = new Error(`Line ${wrong + 1} of the label mapping is no pair.`);
    error.hint = "Write one pair a line, such as NP = SN.";
    throw error;
  }
  return Object.fromEntries(
    rows.filter((row) => row.length === 2).map(([from, to]) => [from.trim(), to.trim()]),
  );
}

// The model to begin with. Returns { element, value(), setKind(kind) }.
function startPart(models) {
  const treebank = h("textarea", {
    rows: "4",
    spellcheck: "false",
    "aria-label": "The treebank to start from",
    placeholder: "Paste its trees here, or choose a file.",
  });
  const file = h("input", {
    type: "file",
    "aria-label": "A file with the treebank",
    onchange: async () => {
      if (file.files[0]) treebank.value = await file.files[0].text();
    },
  });
  const map = h("textarea", {
    rows: "4",
    spellcheck: "false",
    "aria-label": "Label mapping, one pair a line",
    placeholder: "NP = SN\nNN = NC",
  });
  const own = h(
    "div",
    { hidden: true, class: "pair" },
    h("div", {}, h("p", { class: "small" }, "Treebank"), file, treebank),
    h("div", {}, h("p", { class: "small" }, "Label mapping, old = new, one pair a line; may be empty"), map),
  );
  const select = choose([], "", () => (own.hidden = select.value !== "(treebank)"));
  const setKind = (kind) => {
    const wanted = kind === "trees" ? "trees" : "dependencies";
    const fitting = models.filter((model) => model.kind === wanted).map((model) => [model.name, model.name]);
    const options = [
      ...fitting.sort(([a], [b]) => (b === "english") - (a === "english")),
      ["nothing", "nothing: learn from my own trees alone"],
      ["(treebank)", "another treebank, with its labels mapped"],
    ];
    put(
      select,
      options.map(([key, text]) => h("option", { value: key }, text)),
    );
    own.hidden = select.value !== "(treebank)";
  };
  return {
    setKind,
    element: [field("Start from", select), own],
    value: () =>
      select.value === "(treebank)"
        ? { treebank: treebank.value, label_map: labelMap(map.value) }
        : { model: select.value },
  };
}

// The fields of a request that hold the text.
function contentOf(text) {
  const format = text.format.value;
  const content = text.text();
  const document = text.document();
  if (format === "text") return { document, text: content };
  if (format === "raw") return { document, sentences: content.split("\n").filter((line) => line.trim()) };
  return { document, treebank: content, format };
}

// Sends text as bytes: a treebank has more brackets than the server takes in JSON.
function importText(text, isAccepted) {
  const [format, document] = [text.format.value, text.document()];
  const fields = new URLSearchParams({ format, document, as_accepted: isAccepted });
  return upload(`project/import?${fields}`, new Blob([text.text()]));
}

const MOST_IN_JSON = 100_000; // characters of the first text; a longer one follows as bytes

// onmade(project): when the project is there.
export function newProject(root, { models, folder, onmade }) {
  const title = h("input", { type: "text", required: true, placeholder: "My treebank" });
  const text = textPart("trees");
  const start = startPart(models);
  const direction = choose(DIRECTIONS, "auto", () => {});
  const setKind = (kind) => {
    text.setKind(kind);
    start.setKind(kind);
  };
  const kind = choose(KINDS, "trees", setKind);
  setKind("trees");
  const problem = h("div", {});
  const button = h("button", { type: "submit", class: "primary" }, "Make the project");
  let made = null; // the project, where its long text has not come in yet
  const onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    put(problem, busy("Reading the text"));
    try {
      const isLong = text.text().length > MOST_IN_JSON;
      made ??= await ask("project/create", {
        title: title.value.trim() || "Untitled",
        kind: kind.value,
        direction: direction.value,
        start: start.value(),
        ...(text.isEmpty() || isLong ? {} : contentOf(text)),
      });
      if (isLong) {
        await importText(text, false);
        made = await get("project");
      }
      onmade(made);
    } catch (error) {
      put(problem, failure(error));
      button.disabled = false;
    }
  };
  put(
    root,
    h("h1", {}, "New project"),
    h("p", { class: "lead" }, LEAD, folder ? ` Folder: ${folder}.` : ""),
    h(
      "form",
      { class: "stack desk-new", onsubmit },
      h(
        "section",
        { class: "card", "aria-label": "Project" },
        h(
          "div",
          { class: "bar" },
          field("Title", title, { grow: true }),
          field("Annotate", kind),
          field("Script runs", direction),
        ),
        h("div", { class: "bar" }, start.element),
      ),
      h("section", { class: "card", "aria-label": "Sentences" }, h("h2", {}, "Sentences"), text.element),
      problem,
      h("div", {}, button),
    ),
  );
}

// onadded(): when sentences have come in.
export function importDialog(kind, { onadded }) {
  const text = textPart(kind, () => showAccepted());
  const accepted = h("input", { type: "checkbox" });
  const acceptedField = h("label", { class: "check" }, accepted, "its trees are right: accept them all");
  const showAccepted = () => (acceptedField.hidden = !TREES_IN.has(text.format.value));
  const result = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Import");
  const onsubmit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    put(result, busy("Reading"));
    try {
      const told = await importText(text, TREES_IN.has(text.format.value) && accepted.checked);
      put(result, importReport(told));
      onadded();
    } catch (error) {
      put(result, failure(error));
    }
    button.disabled = false;
  };
  const dialog = h(
    "dialog",
    { class: "card desk-dialog wide", "aria-label": "Import" },
    h("h2", {}, "Import"),
    h("p", { class: "desk-plain" }, "Sentences are added at the end; what is there already stays as it is."),
    h(
      "form",
      { onsubmit },
      text.element,
      acceptedField,
      result,
      h(
        "div",
        { class: "chips desk-dialog-end" },
        button,
        h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      ),
    ),
  );
  showAccepted();
  return dialog;
}

function importReport({ added, skipped, messages = [] }) {
  const isWhole = !skipped && !messages.length;
  return h(
    "div",
    { class: isWhole ? "facts" : "notice" },
    h("p", {}, `${plural(added, "sentence")} added${skipped ? `, ${skipped} left out` : ""}.`),
    messages.length
      ? h(
          "ul",
          {},
          messages.map((message) => h("li", {}, message)),
        )
      : null,
  );
}
