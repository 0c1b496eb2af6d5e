// The list of jobs: selects jobs for a bulk change.

import { $, all } from "./dom.js";

function updateSelection() {
  const boxes = all('input[name="ids"]');
  const count = boxes.filter((box) => box.checked).length;
  const everything = $('input[name="all"]');
  if ($("#selected-count")) $("#selected-count").textContent = everything?.checked || !count ? "" : `${count} selected`;
  const page = $("#select-page");
  if (page) { page.checked = count > 0 && count === boxes.length; page.indeterminate = count > 0 && count < boxes.length; }
}

// A search may add the list later. Boxes may be checked before this script runs, or by the browser when one goes back.
export function offerSelection() {
  const label = $("#select-page")?.closest("label");
  if (label) label.hidden = false;
  updateSelection();
}

document.addEventListener("change", (event) => {
  if (event.target.id === "select-page") all('input[name="ids"]').forEach((box) => { box.checked = event.target.checked; });
  updateSelection();
});
offerSelection();
