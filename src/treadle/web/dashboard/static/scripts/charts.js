// Charts: shows the numbers at the pointer, and leads to the jobs of the time that is clicked or dragged over.

import { $, all } from "./dom.js";

// Columns of the data table, with labels, by chart.
const COLUMNS = {
  throughput: [[1, ""]],
  waiting: [[5, "p50 "], [6, "p95 "], [7, "p99 "]],
  "running-time": [[9, "p50 "], [10, "p95 "], [11, "p99 "]],
  failures: [[2, "failed "], [3, "retried "]],
  depth: [[13, ""]],
};

let dragged = null; // the chart and the span where the pointer was pressed

const chartAt = (event) => event.target.closest?.(".plot svg");

function spanAt(svg, event) {
  const at = Math.floor(((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * svg.dataset.spans);
  return Math.min(svg.dataset.spans - 1, Math.max(0, at));
}

function showNumbers(event) {
  const svg = dragged?.svg ?? chartAt(event);
  const nth = svg ? spanAt(svg, event) : -1;
  const first = dragged ? Math.min(dragged.nth, nth) : nth;
  const last = dragged ? Math.max(dragged.nth, nth) : nth;
  const rows = nth < 0 ? [] : all(".chart-data tbody tr");
  for (const each of all(".plot svg")) {
    const cursor = $(".cursor", each);
    cursor.setAttribute("visibility", rows.length ? "visible" : "hidden");
    if (!rows.length) continue;
    const width = 100 / each.dataset.spans;
    cursor.setAttribute("x", first * width);
    cursor.setAttribute("width", (last - first + 1) * width);
  }
  const row = rows[nth];
  for (const output of all(".chart output"))
    output.textContent = row
      ? `${row.cells[0].textContent}: ` + COLUMNS[output.dataset.chart].map(([nth, name]) => name + row.cells[nth].textContent).join(", ")
      : "";
}

function press(event) {
  const svg = event.button === 0 ? chartAt(event) : null;
  if (!svg?.dataset.jobs) return;
  dragged = { svg, nth: spanAt(svg, event) };
  event.preventDefault(); // or text would be selected
}

function release(event) {
  if (!dragged) return;
  const { svg, nth } = dragged;
  dragged = null;
  // Released elsewhere: far above or below a chart is how to change one's mind.
  const box = svg.getBoundingClientRect();
  if (event.clientY < box.top - 60 || event.clientY > box.bottom + 60) return showNumbers(event);
  const other = spanAt(svg, event);
  const begin = new Date(svg.dataset.begin).getTime();
  const moment = (span) => new Date(begin + span * svg.dataset.step * 1000).toISOString();
  const address = new URL(svg.dataset.jobs, location.href);
  address.searchParams.set("since", moment(Math.min(nth, other)));
  address.searchParams.set("until", moment(Math.max(nth, other) + 1));
  if (event.ctrlKey || event.metaKey) window.open(address);
  else location.assign(address);
}

document.addEventListener("pointermove", showNumbers);
document.addEventListener("pointerdown", press);
document.addEventListener("pointerup", release);
document.addEventListener("pointercancel", () => { dragged = null; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") dragged = null; });
