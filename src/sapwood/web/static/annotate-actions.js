// What can be done with what is selected: the buttons below the tree, their keys, and the boxes they open.

import { ask } from "/static/api.js";
import { h } from "/static/dom.js";

const named = (names) => (names ?? []).map((label) => ({ label, probability: null }));

// The labels that an answer suggests, followed by those of the project that it has not.
async function completed(question, all) {
  const { labels } = await ask("project/labels", question);
  const found = labels.map((one) => (typeof one === "string" ? { label: one, probability: null } : one));
  const rest = (all ?? []).filter((name) => !found.some(({ label }) => label === name));
  return [...found, ...named(rest)];
}

// desk: the view of annotate-desk.js, with `session`, `editor`, `box` and `project`. Each command has a key, a name and
// `run`; where `isFor` is false of the selection it is neither shown nor run.
export class Commands {
  constructor(desk) {
    this.desk = desk;
    const node = (selection) => selection?.kind === "node";
    const phrase = (selection) => node(selection) && !this.nodeOf(selection).is_tag;
    const word = (selection) => this.wordOf(selection) !== null;
    const hasNext = (selection) => word(selection) && this.wordOf(selection) + 1 < this.view.words.length;
    const isTrees = desk.project.kind === "trees";
    this.all = [
      isTrees && { key: "a", name: "Phrase over it", isFor: Boolean, run: (s) => this.add(s) },
      isTrees && { key: "r", name: "Relabel", isFor: phrase, run: (s) => this.relabel(s) },
      isTrees && { key: "Delete", name: "Remove", isFor: phrase, run: (s) => this.removeNode(s) },
      isTrees && { key: "m", name: "Move", isFor: node, run: () => this.move() },
      isTrees && {
        key: " ",
        shown: "Space",
        name: "Fold",
        isFor: phrase,
        run: (s) => desk.editor.fold(s.index),
      },
      !isTrees && { key: "h", name: "Head", isFor: word, run: () => this.head() },
      !isTrees && { key: "r", name: "Relation", isFor: word, run: (s) => this.relation(s) },
      { key: "t", name: "Tag", isFor: word, run: (s) => this.retag(s) },
      isTrees && { key: "r", isFor: word, run: (s) => this.retag(s) }, // of a tag, the same
      { key: "s", name: "Split", isFor: word, run: (s) => this.split(s) },
      { key: "j", name: "Join with next", isFor: hasNext, run: (s) => this.join(s) },
      { key: "f", name: "Free", isFor: (s) => this.isGiven(s), run: (s) => this.free(s) },
    ].filter(Boolean);
  }

  get view() {
    return this.desk.session.view;
  }

  nodeOf(selection) {
    return this.view.nodes[selection.index];
  }

  // The one word that a selection is about, or null.
  wordOf(selection) {
    if (!selection) return null;
    if (selection.kind === "word") return selection.word;
    const { start, end, is_tag = true } = selection.kind === "node" ? this.nodeOf(selection) : selection;
    return is_tag && end === start + 1 ? start : null;
  }

  spanOf(selection) {
    const { start, end } = selection.kind === "node" ? this.nodeOf(selection) : selection;
    return { start, end };
  }

  isGiven(selection) {
    if (!selection) return false;
    if (selection.kind === "node") return this.nodeOf(selection).is_given;
    if (selection.kind === "word")
      return Boolean(this.view.arcs.find((arc) => arc.word === selection.word)?.is_given);
    const { start, end } = selection;
    return this.view.nodes.some((node) => node.is_given && node.start === start && node.end === end);
  }

  // Whether the key was that of a command.
  press(event, selection) {
    const name = event.key === "Backspace" ? "Delete" : event.key;
    const command = this.all.find((one) => one.key === name && one.isFor(selection));
    if (!command) return false;
    command.run(selection);
    return true;
  }

  buttons(selection) {
    return this.all
      .filter((one) => one.name && one.isFor(selection))
      .map(({ key, shown, name, run }) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "data-do": name,
            onclick: () => run(this.desk.editor.selection ?? selection),
          },
          name,
          " ",
          h("kbd", {}, shown ?? (key === "Delete" ? "Del" : key)),
        ),
      );
  }

  act(action) {
    this.desk.act(action);
  }

  // -- phrases --

  // typed: the first letter, where somebody began to type a label.
  add(selection, { typed = "", pointer = "keyboard" } = {}) {
    const span = this.spanOf(selection);
    const above =
      selection.kind === "node" && !this.nodeOf(selection).is_tag ? this.nodeOf(selection).label : null;
    this.desk.openBox({
      title: `Phrase over ${this.desk.editor.nameOf({ kind: "words", ...span })}`,
      button: "Add",
      typed,
      isFocused: pointer !== "touch",
      suggestions: completed({ id: this.view.id, ...span }, this.desk.project.labels),
      takes: (label) => {
        this.desk.editor.expect({ ...span, label });
        this.act({ type: "add", ...span, label, ...(above ? { above } : {}) });
      },
    });
  }

  relabel(selection) {
    const { start, end, label } = this.nodeOf(selection);
    this.desk.openBox({
      title: `Label of ${this.desk.editor.nameOf(selection)}`,
      button: "Relabel",
      value: label,
      suggestions: completed({ id: this.view.id, start, end }, this.desk.project.labels),
      takes: (to) => {
        if (to === label) return;
        this.desk.editor.expect({ start, end, label: to });
        this.act({ type: "relabel", start, end, label, to });
      },
    });
  }

  removeNode(selection) {
    const { start, end, label, parent } = this.nodeOf(selection);
    if (parent !== null) this.desk.editor.expect(this.view.nodes[parent]);
    this.act({ type: "remove", start, end, label });
  }

  move() {
    if (this.desk.editor.beginMove())
      this.desk.tell(
        "Choose the new parent: click it, or walk to it with the arrow keys and press Enter. Escape ends it.",
      );
    else this.desk.tell("There is no other phrase that it could be moved to.");
  }

  // -- dependencies --

  head() {
    if (this.desk.editor.beginChoice())
      this.desk.tell(
        "Choose the head: click it, or walk there by arrow keys (↑ or 0: the root) and press Enter. Escape ends it.",
      );
  }

  relation({ word }) {
    const arc = this.view.arcs.find((one) => one.word === word);
    this.desk.openBox({
      title: `Relation of ${this.desk.editor.nameOf({ word })} to ${this.desk.editor.headName(arc.head)}`,
      button: "Name it",
      value: arc.relation,
      suggestions: completed({ id: this.view.id, word, head: arc.head }, this.desk.project.relations),
      takes: (relation) => relation !== arc.relation && this.act({ type: "relation", word, relation }),
    });
  }

  // -- words --

  tagOf(word) {
    if (this.view.arcs) return this.view.arcs.find((arc) => arc.word === word)?.tag ?? "";
    return this.view.nodes.find((node) => node.is_tag && node.start === word)?.label ?? "";
  }

  retag(selection) {
    const word = this.wordOf(selection);
    const { id } = this.view;
    this.desk.openBox({
      title: `Tag of “${this.view.words[word]}”`,
      button: "Retag",
      value: this.tagOf(word),
      suggestions: completed({ id, word }, this.desk.project.tags),
      takes: (tag) => tag !== this.tagOf(word) && this.act({ type: "retag", word, tag }),
    });
  }

  split(selection) {
    const word = this.wordOf(selection);
    const text = this.view.words[word];
    if ([...text].length < 2) {
      this.desk.tell(`“${text}” has one character and cannot be split.`);
      return;
    }
    this.desk.openBox({
      title: `Split “${text}”: put a blank where it is to be split`,
      button: "Split",
      value: text,
      isLabel: false,
      suggestions: Promise.resolve([]),
      takes: (typed) => this.splitAt(word, text, typed),
    });
  }

  splitAt(word, text, typed) {
    const parts = typed.trim().split(/\s+/);
    if (parts.length !== 2 || parts.join("") !== text)
      this.desk.tell(`Nothing was split: put one blank into “${text}”, and change nothing else.`);
    else this.act({ type: "split", word, at: [...parts[0]].length });
  }

  join(selection) {
    this.act({ type: "join", word: this.wordOf(selection) });
  }

  free(selection) {
    const word = this.wordOf(selection);
    const place = word === null ? this.spanOf(selection) : { word };
    this.act({ type: "free", ...place });
  }
}
