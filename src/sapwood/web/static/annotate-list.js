// All sentences of the project: a list with search and filter, a part of it at a time.

import { get } from "/static/api.js";
import { choose, failure, field, h, latest, plural, put } from "/static/dom.js";

const PAGE = 50; // sentences on show
const STATUSES = [
  ["", "all"],
  ["new", "new"],
  ["started", "started"],
  ["accepted", "accepted"],
  ["skipped", "skipped"],
];

// ongo(id): to the sentence that was chosen. Returns { element, open(current) }.
export function sentenceList({ ongo }) {
  let offset = 0;
  let current = null;
  const query = h("input", {
    type: "search",
    "aria-label": "Search in the sentences",
    placeholder: "Search",
  });
  const status = choose(STATUSES, "", () => restart(), { "aria-label": "Status" });
  const rows = h("ol", { class: "desk-list", "aria-label": "Sentences" });
  const says = h("p", { class: "facts", role: "status" });
  const back = h("button", { type: "button", class: "chip", onclick: () => turn(-PAGE) }, "Earlier");
  const forward = h("button", { type: "button", class: "chip", onclick: () => turn(PAGE) }, "Later");
  const load = latest(async () => {
    const asked = new URLSearchParams({ offset, limit: PAGE });
    if (status.value) asked.set("status", status.value);
    if (query.value.trim()) asked.set("query", query.value.trim());
    try {
      const found = await get(`project/sentences?${asked}`);
      show(found);
    } catch (error) {
      put(rows, h("li", {}, failure(error)));
    }
  });
  function show({ total, rows: list }) {
    const last = offset + list.length;
    says.textContent = total
      ? `${offset + 1} to ${last} of ${plural(total, "sentence")}`
      : "No sentence is like that.";
    back.disabled = offset === 0;
    forward.disabled = last >= total;
    put(rows, list.map(line));
    rows.scrollTop = 0;
  }
  const line = (row) =>
    h(
      "li",
      { "aria-current": row.id === current ? "true" : null },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            dialog.close();
            ongo(row.id);
          },
        },
        h("small", {}, String(row.number)),
        h("span", { class: "desk-text", dir: "auto" }, row.text),
        h("small", { class: `desk-status ${row.status}` }, row.status),
      ),
    );
  const restart = () => {
    offset = 0;
    load();
  };
  const turn = (by) => {
    offset = Math.max(0, offset + by);
    load();
  };
  query.addEventListener("input", restart);
  const dialog = h(
    "dialog",
    { class: "card desk-dialog wide", "aria-label": "Sentences" },
    h("h2", {}, "Sentences"),
    h("div", { class: "bar" }, field("Search", query, { grow: true }), field("Status", status)),
    says,
    rows,
    h(
      "div",
      { class: "chips desk-dialog-end" },
      back,
      forward,
      h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
    ),
  );
  return {
    element: dialog,
    // Opens at the part of the list in which the sentence with this number is.
    open(id, number) {
      current = id;
      if (!query.value && !status.value) offset = PAGE * Math.floor(Math.max(0, (number ?? 1) - 1) / PAGE);
      dialog.showModal();
      query.focus();
      load();
    },
  };
}
