// Charts: shows the numbers at the pointer. Columns of the data table, with labels, by chart.

import { $, all } from "./dom.js";

const COLUMNS = { throughput: [[1, ""]], waiting: [[5, "average "], [6, "maximum "]], failures: [[2, "failed "], [3, "retried "]] };

function showNumbers(event) {
  const svg = event.target.closest?.(".plot svg");
  const nth = svg ? Math.floor(((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * svg.dataset.spans) : -1;
  const row = nth < 0 ? null : all(".chart-data tbody tr")[nth];
  for (const each of all(".plot svg")) {
    const cursor = $(".cursor", each);
    cursor.setAttribute("visibility", row ? "visible" : "hidden");
    if (row) cursor.setAttribute("x", nth * Number(cursor.getAttribute("width")));
  }
  for (const output of all(".chart output"))
    output.textContent = row
      ? `${row.cells[0].textContent}: ` + COLUMNS[output.dataset.chart].map(([nth, name]) => name + row.cells[nth].textContent).join(", ")
      : "";
}

document.addEventListener("pointermove", showNumbers);
