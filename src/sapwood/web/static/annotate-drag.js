// Carrying a node of a drawing to another one with the mouse or a finger, and scrolling while one does.

import { h } from "/static/dom.js";

const MOVED = 6; // pixels from which a press is a drag
const EDGE = 40; // pixels from the edge at which a drag scrolls
const CLICK = 60; // milliseconds in which the browser tells of the click that ends a drag

// Nodes have the class "node" and the attribute data-index.
// hooks: canStart(index), onstart(index) returns the text that is carried, canTake(index), ondrop(index or null).
export class Carrying {
  constructor(element, hooks) {
    Object.assign(this, { element }, hooks);
    this.isPressed = false;
    this.isHeld = false; // whether it came down on a part of the drawing
    this.wasDrag = false; // shortly after a drag, whose click means nothing
    this.press = null; // { index, x, y, isDrag }
    this.ghost = h("div", { class: "desk-ghost", hidden: true, "aria-hidden": "true" });
    document.body.append(this.ghost);
    const listeners = {
      pointermove: (event) => this.move(event),
      pointerup: (event) => this.end(event, true),
      pointercancel: (event) => this.end(event, false),
    };
    element.addEventListener("pointerdown", (event) => this.begin(event));
    // A finger that came down on a word or a label draws; elsewhere it scrolls.
    const hold = (event) => this.isHeld && event.cancelable && event.preventDefault();
    element.addEventListener("touchmove", hold, { passive: false });
    for (const [name, listen] of Object.entries(listeners)) document.addEventListener(name, listen);
    this.stop = () => {
      this.ghost.remove();
      for (const [name, listen] of Object.entries(listeners)) document.removeEventListener(name, listen);
    };
  }

  indexAt(target) {
    const group = target?.closest?.(".node");
    return group && this.element.contains(group) ? Number(group.dataset.index) : null;
  }

  indexUnder(event) {
    return this.indexAt(document.elementFromPoint(event.clientX, event.clientY));
  }

  begin(event) {
    this.isPressed = true;
    this.isHeld = event.target.closest?.(".node, .leaf") !== null;
    this.from = { x: event.clientX, y: event.clientY };
    const index = this.indexAt(event.target);
    if (index === null || event.button !== 0 || !this.canStart(index)) return;
    this.press = { index, isDrag: false };
  }

  move(event) {
    if (!this.isPressed) return;
    const isFar = Math.hypot(event.clientX - this.from.x, event.clientY - this.from.y) > MOVED;
    if (isFar) {
      this.wasDrag = true;
      scrollNear(this.element, event);
    }
    if (!this.press || !isFar) return;
    if (!this.press.isDrag) {
      this.press.isDrag = true;
      this.ghost.textContent = this.onstart(this.press.index);
      this.ghost.hidden = false;
    }
    this.ghost.style.setProperty("left", `${event.clientX + 10}px`);
    this.ghost.style.setProperty("top", `${event.clientY + 10}px`);
    const index = this.indexUnder(event);
    this.light(index !== null && this.canTake(index) ? index : null);
  }

  light(index) {
    for (const group of this.element.querySelectorAll(".node"))
      group.classList.toggle("lit", index !== null && Number(group.dataset.index) === index);
  }

  end(event, isKept) {
    if (!this.isPressed) return;
    this.isPressed = false;
    setTimeout(() => (this.wasDrag = false), CLICK);
    const isDrag = this.press?.isDrag;
    this.press = null;
    if (!isDrag) return;
    this.ghost.hidden = true;
    this.light(null);
    const index = isKept ? this.indexUnder(event) : null;
    this.ondrop(index !== null && this.canTake(index) ? index : null);
  }
}

// Scrolls a box so that a part of its drawing is in sight. below: pixels at the lower edge that something hides.
export function reveal(target, box, below = 0) {
  const [inner, outer] = [target.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.left < outer.left + EDGE) box.scrollLeft += inner.left - outer.left - EDGE;
  else if (inner.right > outer.right - EDGE) box.scrollLeft += inner.right - outer.right + EDGE;
  if (inner.top < outer.top) box.scrollTop += inner.top - outer.top - 4;
  else if (inner.bottom > outer.bottom - below) box.scrollTop += inner.bottom - outer.bottom + below + 4;
}

// A drag near the edge of a box scrolls it.
function scrollNear(box, event) {
  const outer = box.getBoundingClientRect();
  if (event.clientY < outer.top - EDGE || event.clientY > outer.bottom + EDGE) return;
  if (event.clientX < outer.left + EDGE) box.scrollLeft -= 12;
  else if (event.clientX > outer.right - EDGE) box.scrollLeft += 12;
}
