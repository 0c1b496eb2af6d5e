// The list of jobs: its rows are updated in place, and never move. A button shows the new jobs.

import { $ } from "./dom.js";
import { merge } from "./merging.js";
import { updateTimes } from "./times.js";

const parsedRow = (html) => new DOMParser().parseFromString(`<table><tbody>${html}`, "text/html").querySelector("tr");

export function updateList(update) {
  for (const [id, html] of Object.entries(update.rows)) {
    const row = document.getElementById(`row-${id}`);
    if (!row) continue;
    merge(row, parsedRow(html));
    updateTimes(row);
  }
  for (const id of update.deleted) document.getElementById(`row-${id}`)?.classList.add("deleted");
  const button = $("#new-jobs");
  button.hidden = !update.new;
  if (!update.new) return;
  const text = `${update.new}${update.more ? " or more" : ""} new ${update.new === 1 ? "job" : "jobs"}`;
  if (button.textContent !== text) button.textContent = text;
}

export function clearNew() {
  const button = $("#new-jobs");
  if (button) button.hidden = true;
}
