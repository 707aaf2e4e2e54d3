// The desk itself: a sentence with its tree, what is known about it, and the keys that edit it.

import { Commands } from "/static/annotate-actions.js";
import { ArcEditor } from "/static/annotate-arcs.js";
import { conflictBanner, lostBanner, refusal } from "/static/annotate-banner.js";
import { helpDialog } from "/static/annotate-help.js";
import { LabelBox } from "/static/annotate-label.js";
import { sentenceList } from "/static/annotate-list.js";
import { importDialog } from "/static/annotate-new.js";
import { deskPage } from "/static/annotate-page.js";
import { progressCard } from "/static/annotate-progress.js";
import { Session } from "/static/annotate-session.js";
import { alternativesCard, guidelineParts, warningsCard, whyCard } from "/static/annotate-side.js";
import { TreeEditor } from "/static/annotate-tree.js";
import { ask, get } from "/static/api.js";
import { announce, busy, failure, latest, percent, put } from "/static/dom.js";

const PERIOD = 2000; // milliseconds between two looks at a model that is being learnt
const TYPING = "input, select, textarea, summary, dialog"; // what handles keys itself
const LABEL_KEY = /^[\p{L}]$/u; // begins a label where several words are selected

export class Desk {
  constructor(root, { state, set, project }) {
    Object.assign(this, { set, project, timer: null, guidelineOf: null });
    this.isOpen = true;
    this.session = new Session(project.folder_name, {
      onview: (view) => this.show(view),
      onproject: (summary) => this.showProject(summary),
      onwhy: (why) => this.showWhy(why),
      onconflict: (conflict) => this.showConflict(conflict),
      onlost: (lost) => this.showLost(lost),
      ontrouble: (error, action) => this.refuse(error, action),
      onend: () => this.showEnd(),
    });
    this.editor = project.kind === "trees" ? this.treeEditor() : this.arcEditor();
    this.commands = new Commands(this);
    this.box = new LabelBox();
    this.help = helpDialog(project.kind);
    this.list = sentenceList({ ongo: (id) => this.session.go(id) });
    this.importing = importDialog(project.kind, { onadded: () => this.loadProject(true) });
    this.progress = progressCard({ onlearn: (network) => this.learn(network) });
    this.loadGuideline = latest((label, isTag) => this.showGuideline(label, isTag));
    this.page = deskPage(root, this);
    this.onkeydown = (event) => this.press(event);
    this.onvisible = () => document.visibilityState === "visible" && this.session.refresh();
    document.addEventListener("keydown", this.onkeydown);
    document.addEventListener("visibilitychange", this.onvisible);
    this.showProject(project);
    this.session.start(state.id);
    this.loadLearning();
  }

  leave() {
    this.isOpen = false;
    clearTimeout(this.timer);
    this.session.leave();
    this.editor.leave();
    document.removeEventListener("keydown", this.onkeydown);
    document.removeEventListener("visibilitychange", this.onvisible);
  }

  treeEditor() {
    return new TreeEditor({
      onselect: (selection) => this.showSelection(selection),
      onask: (selection, pointer) => this.commands.add(selection, { pointer }),
      onmove: (node, to) =>
        this.act({
          type: "move",
          start: node.start,
          end: node.end,
          label: node.label,
          to_start: to.start,
          to_end: to.end,
          to_label: to.label,
        }),
      onrefuse: (text) => this.tell(text),
    });
  }

  arcEditor() {
    return new ArcEditor({
      onselect: (selection) => this.showSelection(selection),
      onhead: (word, head) => this.act({ type: "head", word, head }),
      onrelation: (word) => this.commands.relation({ kind: "word", word }),
      onchoice: (word, head) => announce(`head: ${this.editor.headName(head)}`),
    });
  }

  // -- the sentence --

  show(view) {
    const isNew = this.shownId !== view.id;
    this.shownId = view.id;
    const hadFocus = isNew && this.isFocused();
    this.set({ id: view.id });
    if (isNew) {
      this.box.close();
      put(this.page.banner);
      this.tell("");
    }
    this.editor.show(view);
    this.page.showView(view);
    put(this.page.alternatives, alternativesCard(view, this.alternativeHooks()));
    put(this.page.warnings, warningsCard(view, { ongo: (id) => this.session.go(id) }));
    this.showWhy(this.session.why);
    this.showSelection(this.editor.selection);
    if (hadFocus) this.editor.focus();
    this.say(view, isNew);
  }

  // Whether the keys are those of the tree.
  isFocused() {
    const at = document.activeElement;
    return at === document.body || this.editor.element.contains(at) || at?.id === "main";
  }

  say(view, isNew) {
    const status = view.status === "accepted" ? ", accepted" : "";
    if (isNew) announce(`Sentence ${view.number}${status}: ${view.words.join(" ")}`);
    else if (view.alternatives.length) announce(`Tree with ${percent(view.alternatives[0].probability)}`);
  }

  alternativeHooks() {
    return {
      onchoose: (number) => this.choose(number),
      onpoint: (changes) => this.markChanges(changes),
    };
  }

  // What an alternative has otherwise is marked in the tree on show.
  markChanges(changes) {
    const gone = new Set(
      (changes ?? []).map(({ start, end, label }) =>
        this.session.view.arcs ? `${start}` : `${start} ${end} ${label}`,
      ),
    );
    const isNew = (word) =>
      (changes ?? []).some(({ sign, start, end }) => sign === "+" && word >= start && word < end);
    for (const part of this.editor.element.querySelectorAll("[data-word]"))
      part.classList.toggle("differs", isNew(Number(part.dataset.word)));
    for (const part of this.editor.element.querySelectorAll("[data-key], [data-arc]")) {
      const key = part.dataset.arc ?? part.dataset.key.replace(/ tag$/, "");
      part.classList.toggle("differs", gone.has(key));
    }
  }

  showWhy(why) {
    put(this.page.why, whyCard(why, this.project.order));
  }

  showSelection(selection) {
    this.page.showSelection(selection);
    const { view } = this.session;
    let label = null;
    let isTag = false;
    if (selection?.kind === "node") ({ label, is_tag: isTag } = view.nodes[selection.index]);
    else if (selection?.kind === "word")
      label = view.arcs.find((arc) => arc.word === selection.word)?.relation ?? null;
    this.loadGuideline(label, isTag);
  }

  async showGuideline(label, isTag) {
    const key = `${label} ${isTag} ${this.session.view?.id} ${this.project.counts.accepted}`;
    if (key === this.guidelineOf) return;
    this.guidelineOf = key;
    const ongo = (id) => this.session.go(id);
    if (label === null) {
      put(this.page.guideline, guidelineParts(null, { ongo }));
      return;
    }
    try {
      const asked = new URLSearchParams({
        label,
        id: this.session.view.id,
        ...(isTag ? { is_tag: true } : {}),
      });
      const found = await get(`project/guideline?${asked}`);
      if (key === this.guidelineOf) put(this.page.guideline, guidelineParts(found, { ongo }));
    } catch (error) {
      this.guidelineOf = null;
      if (error.status !== 0) put(this.page.guideline, failure(error));
    }
  }

  // -- the project --

  showProject(summary) {
    Object.assign(this.project, summary);
    this.progress.showProject(this.project);
    this.page?.showProject(this.project);
    const { model } = this.project;
    if (model && model.state !== this.modelState) {
      if (this.modelState === "learning" && model.state === "ready") announce("The model is learnt");
      this.modelState = model.state;
      this.loadLearning();
    }
  }

  async loadProject(isFresh = false) {
    const project = await this.session.reach(() => get(`project?window=${this.session.window}`));
    if (!project || !this.isOpen) return;
    this.showProject(project);
    if (isFresh && !this.session.view) this.session.next();
  }

  // Looks at the model, and again after a while as long as it is being learnt.
  async loadLearning() {
    clearTimeout(this.timer);
    if (!this.isOpen) return;
    try {
      const learning = await get("project/learning");
      if (!this.isOpen) return;
      this.progress.showLearning(learning);
      const isLearning = learning.state === "learning";
      if (!isLearning && this.wasLearning) this.loadProject();
      this.wasLearning = isLearning;
      if (isLearning || learning.state === "waiting")
        this.timer = setTimeout(() => this.loadLearning(), PERIOD);
    } catch {
      this.timer = setTimeout(() => this.loadLearning(), 3 * PERIOD); // the tree says that the server is gone
    }
  }

  async learn(network) {
    try {
      this.progress.showLearning(await ask("project/learn", { network }));
      this.loadLearning();
    } catch (error) {
      this.refuse(error, null);
    }
  }

  async setting(change) {
    try {
      this.showProject(await ask("project/settings", change));
      if (this.session.view && change.direction) this.editor.show({ ...this.session.view, ...change });
    } catch (error) {
      this.refuse(error, null);
    }
  }

  // -- what is said --

  tell(text) {
    this.page.says.textContent = text;
    if (text) announce(text);
  }

  refuse(error, action) {
    put(
      this.page.banner,
      refusal(error, action, this.session.view, () => put(this.page.banner)),
    );
  }

  showLost(lost) {
    put(this.page.lost, lost ? lostBanner(lost, this.session.view) : null);
    if (!lost) {
      announce("The server answers again");
      this.loadProject();
    }
  }

  showConflict(conflict) {
    const hooks = { onmine: () => this.session.chooseMine(), ontheirs: () => this.session.chooseTheirs() };
    put(this.page.banner, conflict ? conflictBanner(conflict, hooks) : null);
    if (conflict)
      this.page.banner.firstElementChild.focus(); // no button: Enter may be on its way
    else this.editor.focus();
  }

  showEnd() {
    if (!this.session.view) this.page.showEmpty();
    else this.tell("That was the last one: every sentence is accepted or skipped.");
  }

  // -- edits --

  act(action) {
    if (this.session.act(action)) {
      put(this.page.banner);
      this.tell("");
    } else if (this.session.isLost)
      this.tell("The server does not answer: this edit was not taken. Make it again when it is back.");
  }

  accept() {
    const { view } = this.session;
    if (!view) return;
    if (!this.session.isFree()) this.tell("The tree is not ready yet: press Enter again when it is.");
    else this.act({ type: "accept", tree: view.tree });
  }

  // k: 1 for the first one besides the tree on show.
  choose(k) {
    const found = this.session.view.alternatives[k];
    if (!found) this.tell(`There is no alternative ${k}.`);
    else if (!this.session.isBusy) this.act({ type: "choose", alternative: found.number, tree: found.tree });
  }

  openBox(options) {
    this.box.open({
      ...options,
      onclose: (hadFocus) => {
        if (hadFocus) this.editor.focus();
      },
    });
  }

  // -- keys --

  press(event) {
    if (event.defaultPrevented || event.target.closest?.(TYPING) || !this.session.view) return;
    if (document.querySelector("dialog[open]")) return;
    const isButton = event.target.closest?.("button, a[href]") !== null;
    if (isButton && (event.key === "Enter" || event.key === " ")) return;
    if (this.session.conflict) return;
    if (this.isHandled(event)) event.preventDefault();
  }

  isHandled(event) {
    if (event.altKey) return false;
    if (event.ctrlKey || event.metaKey) return this.pressControl(event);
    const { selection } = this.editor;
    const isMany = selection?.kind === "words" && selection.end - selection.start > 1;
    if (isMany && (LABEL_KEY.test(event.key) || event.key === "Enter")) {
      this.commands.add(selection, { typed: event.key === "Enter" ? "" : event.key });
      return true;
    }
    if (event.key === "Escape" && this.box.isOpen) {
      this.box.close();
      return true;
    }
    return this.editor.press(event) || this.commands.press(event, selection) || this.pressPlain(event);
  }

  pressControl(event) {
    const key = event.key.toLowerCase();
    if (key === "z") this.session.turnBack(event.shiftKey ? "redo" : "undo");
    else if (key === "y") this.session.turnBack("redo");
    else return false;
    return true;
  }

  pressPlain(event) {
    const keys = {
      Enter: () => this.accept(),
      n: () => this.session.next(),
      p: () => this.session.previous(),
      x: () => this.act({ type: "skip" }),
      u: () => this.session.turnBack("undo"),
      g: () => this.openList(),
      "?": () => this.help.showModal(),
    };
    const number = /^[1-3]$/.test(event.key) ? Number(event.key) : null;
    if (number === null && !(event.key in keys)) return false;
    if (number !== null) this.choose(number);
    else keys[event.key]();
    return true;
  }

  openList() {
    this.list.open(this.session.view?.id, this.session.view?.number);
  }

  // Waiting, before the first sentence is there.
  showBusy() {
    put(this.editor.element, busy("Opening the project"));
  }
}
