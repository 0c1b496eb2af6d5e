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

document.addEventListener("change", updateSelection);
const selectPage = $("#select-page");
if (selectPage) {
  selectPage.closest("label").hidden = false;
  selectPage.addEventListener("change", () => all('input[name="ids"]').forEach((box) => { box.checked = selectPage.checked; }));
}
