// The sentence on show and its edits: one request at a time, each with the revision that the page has seen. What the
// server does not answer is kept and sent again; what another window has changed meanwhile is a conflict.

import { ask, get } from "/static/api.js";
import { wordsOf } from "/static/audit-trees.js";

const AGAIN = new Set([0, 408, 503]); // no answer, none in time, too much to do: worth another try
const RETRY = 1000; // milliseconds between two tries while the server does not answer
const KEPT = "sapwood-annotate-pending"; // of the edit that was not answered, in the storage of this tab
const WINDOW = "sapwood-annotate-window";
const LONGEST = 200; // sentences that "previous" goes back

const read = (key) => {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null; // no storage is allowed here
  }
};
function write(key, text) {
  try {
    if (text === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, text);
  } catch {
    /* kept in memory only */
  }
}

// The name of this tab, which stays when it is loaded again.
function windowName() {
  const known = read(WINDOW);
  if (known) return known;
  const made = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join("");
  write(WINDOW, made);
  return made;
}

// The arcs of a tree in CoNLL-U, as those of a view.
const arcsOf = (conllu) =>
  wordsOf(conllu).map(({ upos, xpos, head, relation }, word) => ({
    word,
    head,
    relation,
    tag: upos === "_" ? xpos : upos,
  }));

// A view with all its lists, in which the top of a tree has no parent, and words are numbers from 0 on. Its arcs are
// null where it is a phrase tree.
function normalised(view) {
  const isTree = Boolean(view.nodes?.length);
  return {
    ...view,
    warnings: view.warnings ?? [],
    nodes: (view.nodes ?? []).map((node) => ({
      ...node,
      parent: (node.parent ?? -1) < 0 ? null : node.parent,
    })),
    arcs: isTree ? null : (view.arcs ?? []).map((arc, word) => ({ ...arc, word })),
    alternatives: (view.alternatives ?? []).map((one) => (isTree ? one : { ...one, arcs: arcsOf(one.tree) })),
  };
}

// project: the name of its folder. hooks: onview(view), onproject(project), onwhy(why), onconflict(conflict or null),
// onlost({ action, isSlow } or null), ontrouble(error, action), onend() when there is no next sentence.
export class Session {
  constructor(project, hooks) {
    Object.assign(this, { project }, hooks);
    this.window = windowName();
    this.view = null;
    this.why = null;
    this.conflict = null;
    this.past = []; // ids of the sentences that were on show before
    this.queue = []; // actions that wait for the answer to the one under way
    this.isBusy = false;
    this.isLost = false; // the server does not answer
    this.isOpen = true;
    this.timer = null;
  }

  leave() {
    this.isOpen = false;
    clearTimeout(this.timer);
  }

  // -- sentences --

  // The edit that was kept when the tab was closed or loaded again, or null.
  kept() {
    try {
      const kept = JSON.parse(read(KEPT));
      return kept?.project === this.project && typeof kept.id === "string" && kept.actions?.length
        ? kept
        : null;
    } catch {
      return null;
    }
  }

  async start(id) {
    const kept = this.kept();
    const view = kept && (await this.fetch(kept.id));
    if (view) {
      this.show(view);
      this.queue = kept.actions;
      await this.send({ revision: kept.revision, isRetry: true });
      return;
    }
    if (id) await this.go(id);
    if (!this.view) await this.next();
  }

  async fetch(id) {
    return this.reach(() => get(`project/sentence?id=${encodeURIComponent(id)}`));
  }

  // The answer to a question that changes nothing; null where it was refused.
  async reach(question) {
    for (;;) {
      try {
        const answer = await question();
        this.setLost(null);
        return answer;
      } catch (error) {
        if (!this.isOpen) return null;
        if (!AGAIN.has(error.status)) {
          this.ontrouble(error, null);
          return null;
        }
        this.setLost({ action: this.queue[0] ?? null, isSlow: error.status !== 0 });
        await this.pause();
      }
    }
  }

  pause() {
    return new Promise((done) => {
      this.timer = setTimeout(done, RETRY);
    });
  }

  setLost(lost) {
    if (this.isLost === (lost !== null)) return;
    this.isLost = lost !== null;
    this.onlost(lost);
  }

  // Whether the sentence may be left: an edit that is not answered yet or in conflict keeps it on show.
  isFree() {
    return !this.isBusy && !this.conflict && !this.isLost;
  }

  async go(id) {
    if (!this.isFree()) return;
    const view = await this.fetch(id);
    if (!view || !this.isOpen) return;
    if (this.view && this.view.id !== id) this.past = [...this.past, this.view.id].slice(-LONGEST);
    this.why = null;
    this.show(view);
  }

  async next() {
    if (!this.isFree()) return;
    const after = this.view ? `after=${encodeURIComponent(this.view.id)}&` : "";
    const found = await this.reach(() => get(`project/next?${after}window=${this.window}`));
    if (!found || !this.isOpen) return;
    if (found.id === null) {
      this.onend();
      return;
    }
    await this.go(found.id);
    if (this.view?.id !== found.id) return;
    this.why = found.why;
    this.onwhy(found.why);
  }

  async previous() {
    if (!this.isFree()) return;
    const id = this.past.at(-1);
    if (id === undefined) return;
    const before = this.past.slice(0, -1);
    await this.go(id);
    this.past = before;
  }

  show(found) {
    const view = normalised(found);
    this.view = view;
    if (view.project) this.onproject(view.project);
    this.onview(view);
  }

  // Takes over what another window has made of the sentence on show.
  async refresh() {
    if (!this.view || !this.isFree()) return;
    const view = await this.fetch(this.view.id);
    if (view && this.isFree() && view.id === this.view.id && view.revision !== this.view.revision)
      this.show(view);
  }

  // -- edits --

  // Whether the action was taken; it is refused while the server does not answer or a conflict is open.
  act(action) {
    if (!this.view || this.conflict || this.isLost) return false;
    this.queue.push(action);
    if (!this.isBusy) this.send({ revision: this.view.revision, isRetry: false });
    return true;
  }

  // Sends the actions of the queue, one after the other.
  async send({ revision, isRetry }) {
    this.isBusy = true;
    const { id } = this.view;
    let accepted = false;
    while (this.queue.length && this.isOpen) {
      const action = this.queue[0];
      write(KEPT, JSON.stringify({ project: this.project, id, revision, actions: this.queue }));
      try {
        const view = await ask("project/edit", { id, revision, window: this.window, action });
        accepted = this.settle(view, action);
      } catch (error) {
        if (AGAIN.has(error.status)) {
          isRetry = true;
          this.setLost({ action, isSlow: error.status !== 0 });
          await this.pause();
          continue;
        }
        const theirs = error.told?.sentence;
        // The server had written the edit down before it went away, and only its answer was lost.
        if (theirs && isRetry && theirs.window === this.window && theirs.revision === revision + 1)
          accepted = this.settle(theirs, action);
        else if (error.status === 409 && theirs) this.beginConflict(theirs);
        else {
          this.queue = [];
          this.setLost(null);
          this.ontrouble(error, action);
        }
      }
      isRetry = false;
      revision = this.view.revision;
    }
    if (this.isOpen) write(KEPT, this.conflict ? read(KEPT) : null);
    this.isBusy = false;
    if (accepted && this.isOpen) await this.next();
  }

  // The answer to the first action of the queue; returns whether that one was the last and ends the work here.
  settle(view, action) {
    this.queue.shift();
    this.setLost(null);
    this.show(view);
    return !this.queue.length && (action.type === "accept" || action.type === "skip");
  }

  // -- conflicts --

  beginConflict(theirs) {
    this.setLost(null);
    this.conflict = { actions: this.queue, mine: this.view, theirs: normalised(theirs) };
    this.queue = [];
    this.onconflict(this.conflict);
  }

  async chooseTheirs() {
    const { theirs } = this.conflict;
    this.endConflict();
    this.show(theirs);
  }

  // The tree that was on show here takes the place of the other one, and then the edits are made.
  async chooseMine() {
    const { actions, mine, theirs } = this.conflict;
    this.endConflict();
    const back = { type: "replace", tree: mine.tree };
    this.view = { ...mine, revision: theirs.revision };
    this.queue = [back, ...actions];
    await this.send({ revision: theirs.revision, isRetry: false });
    if (this.view.id === theirs.id && this.view.revision === theirs.revision) this.show(theirs);
  }

  endConflict() {
    this.conflict = null;
    write(KEPT, null);
    this.onconflict(null);
  }

  // -- undo and redo --

  async turnBack(name) {
    if (!this.isFree()) return;
    this.isBusy = true;
    try {
      const view = await ask(`project/${name}`, { window: this.window });
      if (this.view && this.view.id !== view.id) this.past = [...this.past, this.view.id].slice(-LONGEST);
      this.why = null;
      this.show(view);
    } catch (error) {
      if (error.status === 409 && error.told.sentence) this.show(error.told.sentence);
      this.ontrouble(error, null);
      this.isBusy = false;
      if (AGAIN.has(error.status)) await this.refresh(); // nobody knows whether it was done
    } finally {
      this.isBusy = false;
    }
  }
}
