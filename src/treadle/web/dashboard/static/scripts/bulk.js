// Bulk changes: one request, and one transaction, per chunk.

import { $ } from "./dom.js";

async function submitBulk(event) {
  event.preventDefault();
  const form = event.target;
  const panel = $("#bulk-progress");
  const bar = $("progress", panel);
  const result = $("#bulk-result");
  const counts = { done: 0, unfit: 0, busy: 0, missing: 0 };
  const number = (value) => value.toLocaleString("en");
  const fields = new URLSearchParams(new FormData(form));
  // A double click must not begin it twice. The server refuses that, too.
  if (form.dataset.submitted) return;
  form.dataset.submitted = "yes";
  form.hidden = true;
  panel.hidden = false;
  if (!form.dataset.total) bar.removeAttribute("value");
  try {
    for (let cursor = ""; cursor !== null;) {
      if (cursor) fields.set("after", cursor);
      const response = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { accept: "application/json" } });
      const chunk = await response.json();
      if (!response.ok) throw new Error(chunk.error || response.statusText);
      for (const name of Object.keys(counts)) counts[name] += chunk[name] || 0;
      if (form.dataset.total) bar.value = Object.values(counts).reduce((sum, each) => sum + each, 0);
      cursor = chunk.next ?? null;
      result.textContent = `${cursor ? "In progress" : "Done"}: ${number(counts.done)} changed` +
        (counts.unfit ? `, ${number(counts.unfit)} skipped` : "") +
        (counts.busy ? `, ${number(counts.busy)} locked by another transaction` : "") +
        (counts.missing ? `, ${number(counts.missing)} no longer exist` : "") + ".";
    }
    bar.max = bar.value = 1;
  } catch (error) {
    result.textContent = `Stopped after ${number(counts.done)} changes: ${error.message}`;
  }
}

$("#bulk")?.addEventListener("submit", submitBulk);
