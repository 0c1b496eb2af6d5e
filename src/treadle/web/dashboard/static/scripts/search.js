// The list of jobs: continues a search by itself, one request after the other, until the page is full or all jobs were searched.
// Each request searches for about a tenth of a second. Without scripts, the link "Continue searching" does the same.

import { $, all } from "./dom.js";
import { merge } from "./merging.js";
import { offerSelection } from "./selection.js";
import { updateTimes } from "./times.js";

const rows = (within) => all("table.jobs tbody tr", within);
const number = (value) => value.toLocaleString("en");
let running = null; // aborts the request that runs

function show(answer) {
  const table = $("table.jobs tbody");
  const found = rows(answer);
  if (table) table.append(...found);
  else if (found.length) $(".empty")?.replaceWith(found[0].closest("form"));
  // The button Stop stays: a click on one that is replaced between press and release would be lost.
  merge($("#search-progress"), $("#search-progress", answer));
  $("#search-found").textContent = `${number(rows().length)} found.`;
  $(".pagination").replaceWith($(".pagination", answer));
  if (!rows().length && $(".empty") && $(".empty", answer)) $(".empty").replaceWith($(".empty", answer));
  offerSelection();
  updateTimes();
}

const untilVisible = () => new Promise((resolve) => {
  if (!document.hidden) return resolve();
  document.addEventListener("visibilitychange", resolve, { once: true });
});

async function run() {
  running = new AbortController();
  const { signal } = running;
  let problem = "";
  try {
    for (let next; (next = $('.pagination a[rel="next"]')) && rows().length < Number($("#search-progress").dataset.most ?? 0);) {
      next.hidden = true;
      $("#search-stop").hidden = false;
      await untilVisible();
      const response = await fetch(next.href, { headers: { accept: "text/html" }, signal });
      const answer = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!response.ok || !$("#search-progress", answer)) throw new Error($("main p", answer)?.textContent || response.statusText);
      if (signal.aborted) break;
      show(answer);
    }
  } catch (error) {
    if (error.name !== "AbortError") problem = `The search was interrupted: ${error.message} `;
  }
  const isStopped = signal.aborted;
  running = null;
  $("#search-stop").hidden = true;
  const next = $('.pagination a[rel="next"]');
  if (next) { next.hidden = false; if (isStopped) next.focus(); }
  const covered = $("#search-progress p").textContent.trim();
  $("#search-announcement").textContent = `${problem}${isStopped ? "Stopped. " : ""}${covered}`;
  if (problem || isStopped) $("#search-found").textContent += problem ? ` ${problem}` : " Stopped.";
}

document.addEventListener("click", (event) => {
  if (event.target.id === "search-stop") running?.abort();
  const next = event.target.closest?.('.pagination a[rel="next"]');
  // A page that is full continues on the next one.
  if (next && $("#search-progress")?.dataset.most && rows().length < Number($("#search-progress").dataset.most)) {
    event.preventDefault();
    run();
  }
});
if ($("#search-progress")?.dataset.most) run();
