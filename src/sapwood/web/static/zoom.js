// A drawing that is as wide as its element at first, and can be made larger and smaller.

import { h, put } from "/static/dom.js";

const STEP = 1.25;
const MOST = 3;
const LEAST = 0.15;
export const SMALL = 0.55; // below this scale letters are hard to read

// onfit: called with the scale whenever it changes. leastFit: a drawing whose scale would be below that is not made
// as small as its place, but scrolls.
export function zoomFrame(onfit = () => {}, { leastFit = 0 } = {}) {
  const place = h("div", { class: "figure" });
  const says = h("span", { class: "facts zoom" });
  let wish = null; // the scale that was asked for; null for as wide as the place
  let natural = 0;
  let room = 0; // width of the place: known from its last change, so that nothing is laid out twice
  const fitting = () => (natural ? Math.min(1, Math.max(leastFit, room / natural)) : 1);
  const scale = () => wish ?? fitting();

  function apply() {
    const svg = place.firstElementChild;
    if (!svg || !room) return;
    const middle = wish === null ? null : (place.scrollLeft + room / 2) / Math.max(place.scrollWidth, 1);
    resize(svg);
    if (middle !== null) place.scrollLeft = middle * place.scrollWidth - room / 2;
  }
  function resize(svg) {
    // a drawing that fits may not be a fraction of a pixel too wide
    svg.style.setProperty("width", `${Math.floor(natural * scale())}px`);
    says.textContent = `${Math.round(100 * scale())} %`;
    fit.setAttribute("aria-pressed", String(wish === null));
    onfit(scale());
  }
  function zoom(factor) {
    wish = Math.min(MOST, Math.max(LEAST, scale() * factor));
    apply();
  }
  const button = (text, name, onclick) =>
    h("button", { type: "button", class: "chip", "aria-label": name, title: name, onclick }, text);
  const fit = button("Fit", "Fit to width", () => {
    wish = null;
    apply();
  });
  const controls = h(
    "div",
    { class: "chips", role: "group", "aria-label": "Size of the drawing" },
    button("−", "Make smaller", () => zoom(1 / STEP)),
    says,
    button("+", "Make larger", () => zoom(STEP)),
    fit,
  );
  place.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? STEP : 1 / STEP);
    },
    { passive: false },
  );
  const measure = () => {
    const style = getComputedStyle(place);
    room = place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };
  new ResizeObserver(() => {
    const before = room;
    measure();
    if (room !== before) apply();
  }).observe(place);
  return {
    place,
    controls,
    show(svg) {
      natural = Number(svg.getAttribute("width"));
      if (!room) measure();
      resize(svg);
      put(place, svg);
      if (wish !== null) place.scrollLeft = (place.scrollWidth - room) / 2;
    },
  };
}
