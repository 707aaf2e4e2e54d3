// Dependencies that are edited: a word is dragged onto its head, an arc is clicked and named; arrow keys walk.

import { Carrying, reveal } from "/static/annotate-drag.js";
import { isMirrored, shorten, widthOf } from "/static/annotate-layout.js";
import { percent, s } from "/static/dom.js";
import { quoteWords } from "/static/given.js";
import { zoomFrame } from "/static/zoom.js";

const LEAST_FIT = 0.85; // scale below which a drawing scrolls and is not made smaller
const GAP = 22; // between two words
const NARROWEST = 34;
const MARGIN = 14;
const STEP = 26; // between two heights of arcs
const FOOT = 5; // between two arcs that leave a word on one side
const MOST_FEET = 4; // of them that stand apart
const DOUBT = 0.5; // probability below which an arc is marked as doubtful
const ROOT = -1; // stands for the root as a head in the drawing

// Heights of arcs, so that none crosses the label of one inside it.
function heightsOf(arcs) {
  const spans = arcs
    .filter((arc) => arc.head > 0)
    .map((arc) => ({ arc, low: Math.min(arc.word, arc.head - 1), high: Math.max(arc.word, arc.head - 1) }))
    .sort((a, b) => a.high - a.low - (b.high - b.low));
  const tops = []; // height that is taken between words k and k + 1
  const heights = new Map();
  for (const { arc, low, high } of spans) {
    let height = 1;
    for (let k = low; k < high; k++) height = Math.max(height, (tops[k] ?? 0) + 1);
    for (let k = low; k < high; k++) tops[k] = height;
    heights.set(arc.word, height);
  }
  return heights;
}

// How far from the middle of its head each arc begins: the longest of those that leave on one side is the innermost.
function ranksOf(arcs) {
  const ranks = new Map();
  const length = (arc) => Math.abs(arc.head - 1 - arc.word);
  for (const arc of arcs) {
    const isRival = (other) =>
      other.head === arc.head && other.word > other.head - 1 === arc.word > arc.head - 1;
    const longer = arcs.filter((other) => isRival(other) && length(other) > length(arc));
    ranks.set(arc.word, Math.min(longer.length, MOST_FEET));
  }
  return ranks;
}

// A selection is { kind: "word", word }; null for none.
// hooks: onselect(selection), onhead(word, head as in the API), onrelation(word).
export class ArcEditor {
  constructor(hooks) {
    Object.assign(this, hooks);
    this.view = null;
    this.selection = null;
    this.choosing = null; // the word whose head is being chosen
    this.candidate = null; // the head on offer: a word, or ROOT
    this.frame = zoomFrame(() => {}, { leastFit: LEAST_FIT });
    this.element = this.frame.place;
    this.element.classList.add("desk-figure");
    this.carrying = new Carrying(this.element, {
      canStart: (index) => index !== ROOT && this.choosing === null,
      onstart: (word) => this.carry(word),
      canTake: (head) => this.canTake(head),
      ondrop: (head) => (head === null ? this.endChoice() : this.take(head)),
    });
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("focusin", (event) => this.takeFocus(event.target));
  }

  leave() {
    this.carrying.stop();
  }

  get isMirrored() {
    return isMirrored(this.view);
  }

  // -- drawing --

  show(view) {
    const isSame = this.view?.id === view.id;
    this.view = view;
    this.arcs = new Map((view.arcs ?? []).map((arc) => [arc.word, arc]));
    this.choosing = null;
    if (!isSame || this.selection?.word >= view.words.length) this.selection = null;
    this.draw(isSame);
  }

  layOut() {
    const { words } = this.view;
    this.heights = heightsOf([...this.arcs.values()]);
    this.ranks = ranksOf([...this.arcs.values()]);
    let width = MARGIN;
    this.xs = words.map((word, k) => {
      const arc = this.arcs.get(k);
      const texts = [shorten(word), arc?.tag ?? "", arc && isShort(arc) ? arc.relation : ""];
      const wide = Math.max(NARROWEST, ...texts.map((text) => widthOf(text ?? "")));
      width += wide + GAP;
      return width - (wide + GAP) / 2;
    });
    width += MARGIN;
    if (this.isMirrored) this.xs = this.xs.map((x) => width - x);
    const top = Math.max(1, ...this.heights.values());
    this.base = MARGIN + 58 + top * STEP; // of the words
    return { width, height: this.base + 52 };
  }

  draw(isSame = true) {
    const hadFocus = this.element.contains(document.activeElement);
    const { scrollLeft, scrollTop } = this.element;
    const { width, height } = this.layOut();
    const svg = s("svg", {
      class: "sapwood-arcs desk-arcs",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "application",
      "aria-roledescription": "dependency editor",
      "aria-label": `Dependencies of ${this.view.words.join(" ")}. Press the question mark for the keys.`,
    });
    svg.append(this.rootNode(width));
    for (const arc of this.arcs.values()) svg.append(this.arcGroup(arc));
    svg.append(...this.view.words.map((word, k) => this.wordGroup(word, k)));
    this.frame.show(svg);
    if (isSame) Object.assign(this.element, { scrollLeft, scrollTop });
    else
      Object.assign(this.element, {
        scrollLeft: this.isMirrored ? this.element.scrollWidth : 0,
        scrollTop: this.element.scrollHeight,
      });
    this.paint();
    if (hadFocus) this.focus();
  }

  // A bar above everything, on which a word is dropped that is to be the root.
  rootNode(width) {
    return s(
      "g",
      { class: "node root-bar", "data-index": ROOT, "aria-hidden": "true" },
      s("rect", { class: "hit", x: 4, y: 2, width: width - 8, height: 20, rx: 5 }),
      s("text", { class: "relation", x: width / 2, y: 17, "text-anchor": "middle" }, "root"),
    );
  }

  arcGroup(arc) {
    const x = this.xs[arc.word];
    const isRoot = arc.head === 0;
    const foot = this.base - 20;
    const top = isRoot ? 26 : foot - 8 - (this.heights.get(arc.word) ?? 1) * STEP;
    const from = isRoot ? x : this.xs[arc.head - 1];
    const side = Math.sign(x - from);
    const start = from + (FOOT + FOOT * this.ranks.get(arc.word)) * side;
    const end = x - 2 * side;
    const bend = Math.min(14, Math.abs(end - start) / 2);
    const path = isRoot
      ? `M${x} ${top}V${foot - 5}`
      : `M${start} ${foot}V${top + bend}Q${start} ${top} ${start + side * bend} ${top}` +
        `H${end - side * bend}Q${end} ${top} ${end} ${top + bend}V${foot - 5}`;
    const isDoubtful = arc.probability !== null && arc.probability < DOUBT && !arc.is_given;
    const middle = isRoot ? x : (start + end) / 2;
    const label = arc.relation ?? "";
    const wide = widthOf(label) * 0.87 + 8;
    const classes = ["arc", arc.is_given && "asked", isDoubtful && "doubt"];
    return s(
      "g",
      { class: classes.filter(Boolean).join(" "), "data-arc": arc.word },
      s("path", { class: "reach", d: path }),
      s("path", { class: "bow", d: path }),
      s("path", { class: "arrow", d: `M${end} ${foot}l-4 -8h8z` }),
      s("rect", { class: "plate", x: middle - wide / 2, y: top - 9, width: wide, height: 17, rx: 4 }),
      s("text", { class: "relation", x: middle, y: top + 4, "text-anchor": "middle" }, label),
      arc.is_given ? s("circle", { class: "pin", cx: middle + wide / 2 + 3, cy: top - 5, r: 3.5 }) : [],
    );
  }

  wordGroup(word, k) {
    const x = this.xs[k];
    const arc = this.arcs.get(k);
    const text = shorten(word);
    const wide = Math.max(NARROWEST, widthOf(text), widthOf(arc?.tag ?? "")) + 10;
    return s(
      "g",
      { class: "node leaf", "data-index": k, role: "button", tabindex: "-1", "aria-label": this.spoken(k) },
      s("rect", { class: "hit", x: x - wide / 2, y: this.base - 18, width: wide, height: 52, rx: 5 }),
      s("text", { class: "word", x, y: this.base, "text-anchor": "middle" }, text),
      s("text", { class: "tag", x, y: this.base + 20, "text-anchor": "middle" }, arc?.tag ?? ""),
    );
  }

  spoken(k) {
    const arc = this.arcs.get(k);
    const word = `word ${k + 1}: ${this.view.words[k]}`;
    if (!arc) return word;
    const parts = [word, arc.tag, `${arc.relation} of ${this.headName(arc.head)}`];
    if (arc.probability !== null && arc.probability !== undefined)
      parts.push(`probability ${percent(arc.probability)}`);
    if (arc.is_given) parts.push("set by hand");
    return parts.filter(Boolean).join(", ");
  }

  headName(head) {
    return head ? this.view.words[head - 1] : "the root";
  }

  // -- selection --

  paint() {
    const word = this.selection?.word ?? null;
    const isCandidate = (index) => this.choosing !== null && this.candidate === index;
    for (const group of this.element.querySelectorAll(".node")) {
      const index = Number(group.dataset.index);
      group.classList.toggle("chosen", word === index);
      group.classList.toggle("moved", this.choosing === index);
      group.classList.toggle("lit", isCandidate(index));
      group.setAttribute("tabindex", "-1");
    }
    for (const group of this.element.querySelectorAll(".arc"))
      group.classList.toggle("chosen", word === Number(group.dataset.arc));
    this.target()?.setAttribute("tabindex", "0");
  }

  groupOf(index) {
    return this.element.querySelector(`.node[data-index="${index}"]`);
  }

  target() {
    const isChoosing = this.choosing !== null && this.candidate !== null && this.candidate !== ROOT;
    return this.groupOf(isChoosing ? this.candidate : (this.selection?.word ?? 0));
  }

  select(word, { isFocused = true } = {}) {
    this.selection = word === null ? null : { kind: "word", word };
    this.paint();
    if (isFocused) this.focus();
    this.onselect(this.selection);
  }

  focus() {
    const target = this.target();
    target?.focus({ preventScroll: true });
    if (target) reveal(target, this.element);
  }

  takeFocus(target) {
    if (this.carrying.isPressed || this.choosing !== null) return;
    const index = this.carrying.indexAt(target);
    if (index !== null && index !== ROOT && index !== this.selection?.word)
      this.select(index, { isFocused: false });
  }

  click(event) {
    if (this.carrying.wasDrag) return;
    const index = this.carrying.indexAt(event.target);
    const arc = event.target.closest?.("[data-arc]");
    if (this.choosing !== null) {
      if (index !== null && this.canTake(index)) this.take(index);
    } else if (index !== null && index !== ROOT) this.select(index);
    else if (arc) {
      this.select(Number(arc.dataset.arc));
      this.onrelation(this.selection.word);
    } else this.select(null, { isFocused: false });
  }

  // -- keys --

  press(event) {
    if (event.key === "Escape" && (this.choosing !== null || this.selection)) {
      if (this.choosing !== null) this.endChoice();
      else this.select(null, { isFocused: false });
      return true;
    }
    if (this.choosing !== null && (event.key === "Enter" || event.key === "0")) {
      this.take(event.key === "0" ? ROOT : this.candidate);
      return true;
    }
    if (this.choosing === null && (event.key === "Home" || event.key === "End")) {
      this.select(event.key === "Home" ? 0 : this.view.words.length - 1);
      return true;
    }
    const step = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return false;
    this.walk(typeof step === "number" && this.isMirrored ? -step : step);
    return true;
  }

  walk(step) {
    if (this.choosing !== null) {
      this.walkCandidate(step);
      return;
    }
    const word = this.selection?.word ?? null;
    const arc = this.arcs.get(word);
    let to;
    if (word === null) to = 0;
    else if (step === "up") to = arc?.head ? arc.head - 1 : null;
    else if (step === "down") to = [...this.arcs.values()].find((one) => one.head === word + 1)?.word ?? null;
    else to = word + step;
    if (to !== null && to >= 0 && to < this.view.words.length) this.select(to);
  }

  walkCandidate(step) {
    const n = this.view.words.length;
    if (step === "up") this.candidate = ROOT;
    else if (step === "down") this.candidate = Math.min(this.choosing + 1, n - 1);
    else {
      let to = (this.candidate === ROOT ? this.choosing : this.candidate) + step;
      if (to === this.choosing) to += step;
      if (to < 0 || to >= n) return;
      this.candidate = to;
    }
    this.paint();
    this.focus();
    this.onchoice?.(this.choosing, this.candidate + 1);
  }

  // -- choosing a head --

  beginChoice() {
    if (!this.selection) return false;
    this.choosing = this.selection.word;
    const head = this.arcs.get(this.choosing)?.head ?? 0;
    this.candidate = head
      ? head - 1
      : this.choosing
        ? this.choosing - 1
        : Math.min(1, this.view.words.length - 1);
    this.paint();
    this.focus();
    return true;
  }

  carry(word) {
    this.choosing = word;
    this.candidate = null;
    this.paint();
    return `${this.view.words[word]} →`;
  }

  canTake(head) {
    return head !== null && head !== this.choosing;
  }

  endChoice() {
    const word = this.choosing;
    this.choosing = null;
    this.select(word);
  }

  take(head) {
    const word = this.choosing;
    const isNew = this.canTake(head) && this.arcs.get(word)?.head !== head + 1;
    this.endChoice();
    if (isNew) this.onhead(word, head + 1);
  }

  nameOf(selection) {
    return quoteWords(this.view.words, { start: selection.word, end: selection.word + 1 });
  }
}

const isShort = (arc) => arc.head > 0 && Math.abs(arc.word - (arc.head - 1)) === 1;
