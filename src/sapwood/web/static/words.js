// The words of a sentence in a row. Several are chosen by dragging over them, or with Shift and the arrow keys; under
// each word a bar hangs that is as long as the word is surprising.

import { h, isRightToLeft, number, put } from "/static/dom.js";

const FULL = 100; // per cent of the longest bar

// Follows a pointer from word to word of an element. Words have the attribute data-word.
// onmove: called with the span [start, end) so far; ondone: at the end, also with the kind of pointer.
export function followDrags(element, { onmove, ondone, takesClicks }) {
  let drag = null; // { from, to, isMoved }
  const wordAt = (target) => {
    const found = target?.closest?.("[data-word]");
    return found && element.contains(found) ? Number(found.dataset.word) : null;
  };
  const span = () => [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to) + 1];
  element.addEventListener("pointerdown", (event) => {
    const word = wordAt(event.target);
    if (word === null || event.button !== 0) return;
    drag = { from: word, to: word, isMoved: false };
    if (takesClicks) onmove(span());
  });
  const move = (event) => {
    if (!drag) return;
    const word = wordAt(document.elementFromPoint(event.clientX, event.clientY));
    if (word === null || word === drag.to) return;
    drag.to = word;
    drag.isMoved = true;
    onmove(span());
  };
  const end = (event) => {
    if (!drag) return;
    const isMeant = drag.isMoved || takesClicks;
    const found = span();
    drag = null;
    if (isMeant) ondone(found, event.pointerType);
  };
  const cancel = () => {
    if (drag) onmove(null);
    drag = null;
  };
  // On the document: a mouse may leave the row, and a finger's events stay with the word it came down on.
  const listeners = { pointermove: move, pointerup: end, pointercancel: cancel };
  for (const [name, listen] of Object.entries(listeners)) document.addEventListener(name, listen);
  return () => {
    for (const [name, listen] of Object.entries(listeners)) document.removeEventListener(name, listen);
  };
}

// onselect: called with the span that is being chosen, or null; onask: when a span was chosen and something is to be
// asked of it, with the kind of pointer, or "keyboard".
export class WordRow {
  constructor({ onselect, onask }) {
    Object.assign(this, { onselect, onask, words: [], current: 0, anchor: null, canAsk: true });
    this.element = h("div", { class: "word-row", role: "listbox", "aria-multiselectable": "true" });
    this.element.addEventListener("keydown", (event) => this.press(event));
    // Screen readers and pointers give the focus to any word.
    this.element.addEventListener("focusin", (event) => this.focus(Number(event.target.dataset.word), false));
    this.stop = followDrags(this.element, {
      takesClicks: true,
      onmove: (span) => this.canAsk && this.select(span),
      ondone: (span, kind) => this.canAsk && this.choose(span, kind),
    });
  }

  // Keeps the elements, and so the focus, where the words stay the same.
  show(words, canAsk) {
    this.canAsk = canAsk;
    this.element.classList.toggle("fixed", !canAsk);
    this.element.setAttribute(
      "aria-label",
      canAsk
        ? "Words. Arrow keys walk, with Shift they choose several, Enter asks for a phrase over them."
        : "Words",
    );
    if (words.join(" ") === this.words.join(" ")) return;
    this.words = words;
    this.current = 0;
    this.anchor = null;
    this.element.dir = isRightToLeft(words) ? "rtl" : "ltr";
    put(this.element, words.map(wordOption));
  }

  option(k) {
    return this.element.children[k];
  }

  // Marks a span as chosen; null for none.
  select(span) {
    for (const [k, option] of [...this.element.children].entries())
      option.setAttribute("aria-selected", String(span !== null && k >= span[0] && k < span[1]));
    this.onselect(span);
  }

  choose(span, kind) {
    this.focus(span[1] - 1, kind === "keyboard");
    this.anchor = null;
    this.select(span);
    this.onask(span, kind);
  }

  focus(k, isMoved = true) {
    this.option(this.current)?.setAttribute("tabindex", "-1");
    this.current = k;
    this.option(k).setAttribute("tabindex", "0");
    if (isMoved) this.option(k).focus();
  }

  press(event) {
    const isMirrored = this.element.dir === "rtl";
    const step = { ArrowLeft: isMirrored ? 1 : -1, ArrowRight: isMirrored ? -1 : 1 }[event.key];
    const to = { Home: 0, End: this.words.length - 1 }[event.key] ?? this.current + (step ?? 0);
    if (step || event.key === "Home" || event.key === "End") this.walk(to, event.shiftKey);
    else if (event.key === "Enter" || event.key === " ") {
      if (this.canAsk) this.choose(this.span(), "keyboard");
    } else if (event.key === "Escape") this.walk(this.current, false);
    else return;
    event.preventDefault();
  }

  span() {
    const from = this.anchor ?? this.current;
    return [Math.min(from, this.current), Math.max(from, this.current) + 1];
  }

  walk(to, isExtended) {
    const from = this.current;
    if (to >= 0 && to < this.words.length) this.focus(to);
    if (!this.canAsk) return;
    this.anchor = isExtended ? (this.anchor ?? from) : null;
    this.select(isExtended ? this.span() : null);
  }

  // rows: those of the surprisal, or null where there are none.
  showSurprisal(rows) {
    const known = (rows ?? []).map((row) => row.surprisal ?? 0);
    const most = Math.max(...known, 1);
    for (const [k, option] of [...this.element.children].entries()) {
      const row = rows?.[k];
      const bar = option.querySelector("i");
      bar.hidden = !row;
      if (!row) continue;
      const isImpossible = row.surprisal === null;
      bar.classList.toggle("impossible", isImpossible);
      bar.firstChild.style.setProperty(
        "height",
        `${isImpossible ? FULL : Math.max(4, (FULL * row.surprisal) / most)}%`,
      );
      option.title = isImpossible ? "no surprisal" : `${number(row.surprisal, 1)} bits`;
    }
  }
}

function wordOption(word, k) {
  const look = { role: "option", class: "token", "data-word": k, "aria-selected": "false" };
  const bar = h("i", { "aria-hidden": "true", hidden: true }, h("b", {}));
  return h("span", { ...look, tabindex: k === 0 ? "0" : "-1" }, h("span", {}, word), bar);
}
