// The box for a label: what is typed narrows the suggestions, which stand in the order of their probability.

import { announce, failure, h, percent, put } from "/static/dom.js";

const MOST = 12; // suggestions on show
let nBoxes = 0;

// Suggestions that begin with what was typed, then those that contain it; without regard to capitals.
function matching(all, typed) {
  const wanted = typed.trim().toUpperCase();
  if (!wanted) return all;
  const begins = all.filter(({ label }) => label.toUpperCase().startsWith(wanted));
  const contains = all
    .filter(({ label }) => !begins.some((one) => one.label === label))
    .filter(({ label }) => label.toUpperCase().includes(wanted));
  return [...begins, ...contains];
}

export class LabelBox {
  constructor() {
    this.element = h("form", { class: "desk-box", hidden: true });
    this.turn = 0;
  }

  get isOpen() {
    return !this.element.hidden;
  }

  // title: what the label is for; suggestions: a promise of [{ label, probability }]; typed: the first letters;
  // takes: called with the label; onclose: where the focus goes back to. isLabel: whether blanks are refused.
  open({
    title,
    button,
    suggestions,
    typed = "",
    value = "",
    isLabel = true,
    isFocused = true,
    takes,
    onclose,
  }) {
    const turn = ++this.turn;
    const id = `suggestions-${++nBoxes}`;
    Object.assign(this, { takes, onclose, isLabel, all: [], shown: [], current: -1 });
    this.input = h("input", {
      type: "text",
      role: "combobox",
      value: typed || value,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      "aria-expanded": "true",
      "aria-controls": id,
      "aria-label": title,
    });
    this.list = h("div", { class: "chips", role: "listbox", id, "aria-label": "Suggestions" });
    this.problem = h("div", {});
    const cancel = h("button", { type: "button", class: "quiet", onclick: () => this.close() }, "Cancel");
    put(
      this.element,
      h("label", { class: "check" }, h("span", {}, title), this.input),
      h("button", { type: "submit", class: "chip" }, button),
      cancel,
      this.list,
      this.problem,
    );
    this.isTyped = typed !== ""; // not the label that is there already
    this.input.addEventListener("input", () => {
      this.isTyped = true;
      this.narrow();
    });
    this.element.onkeydown = (event) => this.press(event);
    this.element.onsubmit = (event) => {
      event.preventDefault();
      this.submit();
    };
    this.element.hidden = false;
    if (isFocused) {
      this.input.focus();
      if (typed) this.input.setSelectionRange(typed.length, typed.length);
      else this.input.select();
    }
    announce(title);
    this.ready = this.load(suggestions, turn);
  }

  async load(suggestions, turn) {
    try {
      const found = await suggestions;
      if (turn !== this.turn || !this.isOpen) return;
      this.all = found;
      this.narrow();
    } catch (error) {
      if (turn === this.turn) put(this.problem, failure(error));
    }
  }

  narrow() {
    const typed = this.isTyped ? this.input.value.trim() : "";
    const isKnown = this.all.some(({ label }) => label.toUpperCase() === typed.toUpperCase());
    this.shown = matching(this.all, typed).slice(0, MOST);
    if (this.isLabel && typed && !isKnown) this.shown.push({ label: typed, isNew: true });
    put(
      this.list,
      this.shown.map((one, k) => this.option(one, k)),
    );
    // What Enter takes is marked.
    this.mark(typed && !isKnown ? 0 : -1);
  }

  option({ label, probability, isNew }, k) {
    const isKnown = probability !== null && probability !== undefined;
    return h(
      "button",
      {
        type: "button",
        class: "chip",
        role: "option",
        id: `${this.list.id}-${k}`,
        tabindex: "-1",
        "aria-selected": "false",
        onclick: () => this.take(label),
      },
      label,
      isNew ? h("small", {}, " new") : null,
      isKnown ? h("small", {}, ` ${percent(probability)}`) : null,
    );
  }

  mark(k) {
    this.current = k < this.shown.length ? k : -1;
    for (const [place, option] of [...this.list.children].entries())
      option.setAttribute("aria-selected", String(place === this.current));
    const id = this.current < 0 ? "" : `${this.list.id}-${this.current}`;
    this.input.setAttribute("aria-activedescendant", id);
  }

  press(event) {
    const n = this.shown.length;
    if (event.key === "Escape") this.close();
    else if (event.key === "ArrowDown" && n) this.mark((this.current + 1) % n);
    else if (event.key === "ArrowUp" && n) this.mark((this.current + n - 1) % n);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The suggestion that is marked, else the label that was typed, else the likeliest.
  async submit() {
    const { turn } = this;
    await this.ready;
    if (turn !== this.turn) return;
    const typed = this.input.value.trim();
    const exact = this.all.find(({ label }) => label === typed);
    const same = this.all.find(({ label }) => label.toUpperCase() === typed.toUpperCase());
    const label =
      this.shown[this.current]?.label ?? exact?.label ?? same?.label ?? (typed || this.shown[0]?.label);
    if (label) this.take(label);
  }

  take(label) {
    if (this.isLabel && /[\s()]/.test(label)) {
      put(this.problem, failure({ message: "A label has no blanks and no brackets." }));
      return;
    }
    const { takes } = this;
    this.close();
    takes(label);
  }

  close() {
    if (!this.isOpen) return;
    this.turn++;
    const hadFocus = this.element.contains(document.activeElement);
    this.element.hidden = true;
    put(this.element);
    this.onclose?.(hadFocus);
  }
}
