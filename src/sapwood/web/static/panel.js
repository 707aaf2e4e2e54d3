// Details of the element that was pointed at: beside a drawing where there is room, across the page above a
// wide one, and on narrow screens a sheet at the bottom, which is open while something is chosen.

import { h, put } from "/static/dom.js";

const NARROW = matchMedia("(max-width: 60rem)"); // as in the style sheet
const MARGIN = 16; // pixels between the chosen thing and the sheet

export function sidePanel(label, onclose = () => {}) {
  const body = h("div", { class: "parts" });
  const close = h("button", { type: "button", class: "quiet close", "aria-label": "Close" }, "×");
  const element = h(
    "aside",
    { class: "card side sheet", "aria-live": "polite", "aria-label": label },
    close,
    body,
  );
  const room = () => {
    const wanted = isOpen() ? `${element.offsetHeight}px` : "";
    if (document.body.style.paddingBottom !== wanted) document.body.style.paddingBottom = wanted;
  };
  const isOpen = () => NARROW.matches && element.classList.contains("open");
  let anchor = null;
  function keepInSight() {
    room();
    if (!anchor || !isOpen()) return;
    const hidden = anchor.getBoundingClientRect().bottom + MARGIN - (innerHeight - element.offsetHeight);
    if (hidden > 0) scrollBy({ top: hidden });
  }
  new ResizeObserver(keepInSight).observe(element); // parts of the panel come later
  const panel = {
    element,
    show(...parts) {
      put(body, ...parts);
      room();
    },
    // wanted: what must stay in sight above the sheet.
    open(wanted = null) {
      element.classList.add("open");
      anchor = wanted;
      keepInSight();
    },
    close() {
      element.classList.remove("open");
      anchor = null;
      room();
    },
  };
  close.addEventListener("click", () => {
    panel.close();
    onclose();
  });
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isOpen()) close.click();
  });
  return panel;
}
