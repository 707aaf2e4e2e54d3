// A phrase tree that is edited: words are dragged over, phrases are chosen, moved, folded; arrow keys walk.

import { Carrying, reveal } from "/static/annotate-drag.js";
import { branch, childrenOf, isMirrored, keyOf, layOut } from "/static/annotate-layout.js";
import { BAND, nodeGroup, pinWords, wordRow } from "/static/annotate-nodes.js";
import { s } from "/static/dom.js";
import { quoteWords } from "/static/given.js";
import { followDrags } from "/static/words.js";
import { zoomFrame } from "/static/zoom.js";

const LEAST_FIT = 0.85; // scale below which a tree scrolls and is not made smaller

// A selection is { kind: "words", start, end } or { kind: "node", index }; null for none.
// hooks: onselect(selection), onask(selection, kind of pointer), onmove(node, parent), onrefuse(text).
export class TreeEditor {
  constructor(hooks) {
    Object.assign(this, hooks);
    this.view = null;
    this.selection = null;
    this.moving = null; // index of the node whose new parent is being chosen
    this.anchor = null; // the word at which a selection by Shift began
    this.wanted = null; // what is selected in the next tree
    this.folds = new Set();
    this.frame = zoomFrame(() => requestAnimationFrame(() => this.pin()), { leastFit: LEAST_FIT });
    this.element = this.frame.place;
    this.element.classList.add("desk-figure");
    this.stop = followDrags(this.element, {
      takesClicks: true,
      onmove: (span) => this.mark(span && { kind: "words", start: span[0], end: span[1] }),
      ondone: (span, kind) => this.endSelect(span, kind),
    });
    this.carrying = new Carrying(this.element, {
      canStart: (index) => this.moving === null && this.canMove(index),
      onstart: (index) => this.carry(index),
      canTake: (index) => this.canTake(index),
      ondrop: (index) => (index === null ? this.endMove() : this.dropOn(index)),
    });
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("scroll", () => this.pin());
    this.element.addEventListener("dblclick", (event) => this.fold(this.indexAt(event.target)));
    this.element.addEventListener("focusin", (event) => this.takeFocus(event.target));
  }

  leave() {
    this.stop();
    this.carrying.stop();
  }

  get isMirrored() {
    return isMirrored(this.view);
  }

  // -- drawing --

  show(view) {
    const isSame = this.view?.id === view.id;
    const before = isSame ? (this.wanted ?? this.describe()) : null;
    this.wanted = null;
    this.view = view;
    this.children = childrenOf(view.nodes);
    this.moving = null;
    if (!isSame) this.folds = new Set();
    this.selection = before ? this.find(before) : null;
    this.anchor = null;
    this.draw(isSame);
  }

  // Selects a phrase as soon as it is in the tree.
  expect(node) {
    this.wanted = { kind: "node", key: keyOf(node) };
  }

  describe() {
    if (!this.selection || this.selection.kind === "words") return this.selection;
    return { kind: "node", key: keyOf(this.view.nodes[this.selection.index]) };
  }

  // The selection that was, in the new tree: the same phrase, else nothing.
  find(before) {
    const { nodes, words } = this.view;
    if (before.kind === "words")
      return before.end - before.start === 1 && before.end <= words.length ? before : null;
    const index = nodes.findIndex((node) => keyOf(node) === before.key);
    return index < 0 ? null : { kind: "node", index };
  }

  draw(isSame = true) {
    const hadFocus = this.element.contains(document.activeElement);
    const { scrollLeft, scrollTop } = this.element;
    const { nodes, words } = this.view;
    this.layout = layOut(this.view, this.folds);
    const { width, height, places } = this.layout;
    const svg = s("svg", {
      class: "sapwood-tree desk-tree",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "application",
      "aria-roledescription": "tree editor",
      "aria-label": `Tree of ${words.join(" ")}. Press the question mark for the keys.`,
    });
    const lines = s("g", { class: "line", fill: "none" });
    svg.append(lines);
    for (const [index, place] of [...places].sort(([a], [b]) => a - b)) {
      const above = places.get(nodes[index].parent ?? -1);
      if (above) lines.append(s("path", { d: branch(above, place) }));
      const node = nodes[index];
      svg.append(nodeGroup(node, { index, place, words, isFolded: this.folds.has(keyOf(node)) }));
    }
    this.row = wordRow(this.layout, words);
    svg.append(this.row);
    this.frame.show(svg);
    if (isSame) Object.assign(this.element, { scrollLeft, scrollTop });
    else
      Object.assign(this.element, {
        scrollLeft: this.isMirrored ? this.element.scrollWidth : 0,
        scrollTop: this.element.scrollHeight, // where the words are
      });
    this.paint();
    this.pin();
    if (hadFocus) this.focus();
  }

  pin() {
    if (this.row) pinWords(this.row, this.element, this.layout.height);
  }

  // -- selection --

  // Marks what is selected, without telling anybody.
  mark(selection) {
    this.selection = selection;
    this.paint();
  }

  paint() {
    const { selection } = this;
    const isWords = selection?.kind === "words";
    const span = selection?.kind === "node" ? this.view.nodes[selection.index] : selection;
    for (const leaf of this.element.querySelectorAll("[data-word]")) {
      const k = Number(leaf.dataset.word);
      const isInside = span && k >= span.start && k < span.end;
      leaf.classList.toggle("picked", Boolean(isWords && isInside));
      leaf.classList.toggle("within", Boolean(!isWords && isInside));
    }
    for (const group of this.element.querySelectorAll(".node")) {
      const index = Number(group.dataset.index);
      group.classList.toggle("chosen", selection?.kind === "node" && selection.index === index);
      group.classList.toggle("moved", this.moving === index);
    }
    for (const one of this.element.querySelectorAll("[tabindex='0']")) one.setAttribute("tabindex", "-1");
    this.target()?.setAttribute("tabindex", "0");
  }

  // The element that has the focus when the tree has it.
  target() {
    const { selection } = this;
    const isWords = selection?.kind === "words";
    const at = isWords ? (this.anchor === selection.start ? selection.end - 1 : selection.start) : null;
    return (
      (isWords && this.element.querySelector(`[data-word="${at}"]`)) ||
      (selection?.kind === "node" && this.element.querySelector(`.node[data-index="${selection.index}"]`)) ||
      this.element.querySelector(".node") ||
      this.element.querySelector("[data-word]")
    );
  }

  select(selection, { isFocused = true } = {}) {
    this.mark(selection);
    if (isFocused) this.focus();
    this.onselect(selection);
  }

  focus() {
    const target = this.target();
    target?.focus({ preventScroll: true });
    if (target) reveal(target, this.element, this.row?.contains(target) ? 0 : BAND);
  }

  // Screen readers and the Tab key give the focus to any part.
  takeFocus(target) {
    if (this.carrying.isPressed || (this.selection !== null && target === this.target())) return;
    const index = this.indexAt(target);
    const word = target.closest?.("[data-word]");
    if (index !== null) this.select({ kind: "node", index }, { isFocused: false });
    else if (word) this.select(wordAt(Number(word.dataset.word)), { isFocused: false });
  }

  indexAt(target) {
    return this.carrying.indexAt(target);
  }

  click(event) {
    if (this.carrying.wasDrag) return;
    const index = this.indexAt(event.target);
    if (index === null) {
      if (!event.target.closest?.("[data-word]") && this.moving === null)
        this.select(null, { isFocused: false });
    } else if (this.moving !== null) this.dropOn(index);
    else this.select({ kind: "node", index });
  }

  endSelect([start, end], pointer) {
    this.anchor = start;
    this.select({ kind: "words", start, end });
    if (end - start > 1) this.onask(this.selection, pointer);
  }

  // -- keys --

  // Returns whether the key was one of the tree's own.
  press(event) {
    if (this.pressSelected(event)) return true;
    if (event.key === "Home" || event.key === "End") {
      this.anchor = null;
      this.select(wordAt(event.key === "Home" ? 0 : this.view.words.length - 1));
      return true;
    }
    const step = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.shiftKey) this.extend(step);
    else this.walk(step);
    return true;
  }

  pressSelected(event) {
    if (event.key === "Escape" && (this.selection || this.moving !== null)) {
      if (this.moving !== null) this.endMove();
      else this.select(null, { isFocused: false });
      return true;
    }
    if (this.moving !== null && event.key === "Enter") {
      this.dropOn(this.selection.index);
      return true;
    }
    if (event.key === " " && this.selection?.kind === "node") {
      this.fold(this.selection.index);
      return true;
    }
    return false;
  }

  // +1 towards the end of the sentence, −1 towards its beginning.
  along(step) {
    if (step !== "left" && step !== "right") return 0;
    return (step === "right") === this.isMirrored ? -1 : 1;
  }

  walk(step) {
    const { selection } = this;
    const { nodes } = this.view;
    if (selection === null) {
      this.select(nodes.length ? { kind: "node", index: 0 } : wordAt(0));
      return;
    }
    const isWords = selection.kind === "words";
    let to;
    if (isWords && step === "up") to = this.tagOver(selection);
    else if (isWords) to = this.wordBeside(selection, step);
    else if (step === "up") to = nodes[selection.index].parent ?? null;
    else if (step === "down") to = this.below(selection.index);
    else to = this.beside(selection.index, this.along(step));
    this.anchor = null;
    if (to === null) return;
    if (typeof to === "object") this.select(to);
    else this.select({ kind: "node", index: to });
  }

  wordBeside({ start, end }, step) {
    const by = this.along(step);
    if (!by) return null;
    const to = by > 0 ? end : start - 1;
    return to >= 0 && to < this.view.words.length ? wordAt(to) : null;
  }

  // The lowest node over all selected words.
  tagOver({ start, end }) {
    const { nodes } = this.view;
    let best = null;
    for (const [index, node] of nodes.entries())
      if (this.layout.places.has(index) && node.start <= start && node.end >= end) best = index;
    return best;
  }

  below(index) {
    const node = this.view.nodes[index];
    if (this.folds.has(keyOf(node))) return null;
    if (node.is_tag) return this.moving === null ? wordAt(node.start) : null;
    return this.children.get(index)?.[0] ?? null;
  }

  // A sibling, or the nearest node at the same side at whatever depth.
  beside(index, by) {
    const { nodes } = this.view;
    const node = nodes[index];
    const siblings = this.children.get(node.parent ?? -1);
    const sibling = siblings[siblings.indexOf(index) + by];
    if (sibling !== undefined) return sibling;
    const touches = (other) => (by > 0 ? other.start === node.end : other.end === node.start);
    const far = nodes.findIndex((other, k) => this.layout.places.has(k) && touches(other));
    return far < 0 ? null : far;
  }

  extend(step) {
    const by = this.along(step);
    const { selection } = this;
    if (!by || this.moving !== null) return;
    if (selection?.kind !== "words") {
      const node = selection ? this.view.nodes[selection.index] : null;
      const [start, end] = node ? [node.start, node.end] : [0, 1];
      this.anchor = by > 0 ? start : end - 1;
      this.select({ kind: "words", start, end });
      return;
    }
    this.anchor ??= by > 0 ? selection.start : selection.end - 1;
    const moving = this.anchor === selection.start ? selection.end - 1 : selection.start;
    const to = moving + by;
    if (to < 0 || to >= this.view.words.length) return;
    this.select({ kind: "words", start: Math.min(this.anchor, to), end: Math.max(this.anchor, to) + 1 });
  }

  // -- folding --

  fold(index) {
    if (index === null || this.view.nodes[index].is_tag) return;
    const key = keyOf(this.view.nodes[index]);
    if (!this.folds.delete(key)) this.folds.add(key);
    this.draw();
  }

  // Folds every phrase that is so many levels below the root; 0 unfolds all.
  foldBelow(depth) {
    const depths = [];
    this.folds = new Set();
    for (const [index, node] of this.view.nodes.entries()) {
      depths[index] = node.parent === null ? 0 : depths[node.parent] + 1;
      if (depth && depths[index] >= depth && !node.is_tag && node.end - node.start > 1)
        this.folds.add(keyOf(node));
    }
    if (this.selection?.kind === "node") this.selection = null;
    this.draw();
  }

  // -- moving a phrase to another parent --

  beginMove() {
    if (this.selection?.kind !== "node" || !this.canMove(this.selection.index)) return false;
    this.moving = this.selection.index;
    const first = this.view.nodes.findIndex((_, index) => this.canTake(index));
    this.select({ kind: "node", index: this.view.nodes[this.moving].parent ?? first });
    return true;
  }

  // A top can be moved where there are several.
  canMove(index) {
    return this.view.nodes[index].parent !== null || this.children.get(-1).length > 1;
  }

  carry(index) {
    this.moving = index;
    this.paint();
    return this.view.nodes[index].label;
  }

  endMove() {
    const index = this.moving;
    this.moving = null;
    this.select({ kind: "node", index });
  }

  canTake(index) {
    const { nodes } = this.view;
    if (index === null || nodes[index].is_tag || index === this.moving) return false;
    for (let at = index; at !== null; at = nodes[at].parent) if (at === this.moving) return false;
    return true;
  }

  dropOn(index) {
    const { nodes } = this.view;
    const from = this.moving;
    const canTake = this.canTake(index) && nodes[from].parent !== index;
    this.endMove();
    if (canTake) this.onmove(nodes[from], nodes[index]);
    else this.onrefuse(`${nodes[from].label} cannot be moved there.`);
  }

  // Says what a selection is, in words.
  nameOf(selection) {
    if (selection.kind === "words") return quoteWords(this.view.words, selection);
    const node = this.view.nodes[selection.index];
    return `${node.label} ${quoteWords(this.view.words, node)}`;
  }
}

const wordAt = (k) => ({ kind: "words", start: k, end: k + 1 });
