// The page of an error that may pass: tries in the background, and loads the page when it works again.

import { $, main } from "./dom.js";

const seconds = Number(main()?.dataset.retryAfter);
const FETCH_MS = 5000;
let tries = 0;

async function retry() {
  tries += 1;
  try {
    const response = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(FETCH_MS) });
    if (response.status < 500) return location.reload();
  } catch {
    // The dashboard itself does not answer.
  }
  $("#retry").textContent = `Tried again ${tries === 1 ? "once" : `${tries} times`}. This page loads when the database answers.`;
  setTimeout(retry, seconds * 1000);
}

if (seconds) setTimeout(retry, seconds * 1000);
