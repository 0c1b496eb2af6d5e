// How old the page is, by the browser's own clock: no server has to be reachable to say that it is stale.

import { $, main } from "./dom.js";
import { clockTime, duration } from "./times.js";

// After this time the page looks stale: within 5 seconds. Live pages are updated every 2 to 4 seconds.
export const STALE_MS = 4700;
// The same, if the server says that it has no data.
const UNAVAILABLE_MS = 3000;
let shownAt = performance.now(); // when the newest data arrived
let readAt = new Date(); // the same, as a time of day
let heardAt = performance.now(); // when the server last said anything
let reason = "";

// The page has new data.
export function setFresh() {
  shownAt = heardAt = performance.now();
  readAt = new Date();
  reason = "";
  showAge();
}

// The server answers, but has no data.
export function setUnavailable(text) {
  heardAt = performance.now();
  reason = text || "the database does not answer";
  showAge();
}

// Milliseconds since the server last said anything.
export const silence = () => performance.now() - heardAt;

const isLive = () => Boolean(main()?.dataset.live || main()?.dataset.refresh);
const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function showAge() {
  const age = performance.now() - shownAt;
  const isStale = isLive() && age > (reason ? UNAVAILABLE_MS : STALE_MS);
  const seconds = Math.floor(age / 1000);
  document.documentElement.classList.toggle("stale", isStale);
  $("#age").textContent = isLive() ? `updated ${seconds < 1 ? "now" : `${duration(seconds)} ago`}` : "";
  $("#stale").hidden = !isStale;
  if (!isStale) {
    $("#stale-reason").textContent = "";
    return;
  }
  const why = capitalized(silence() > STALE_MS ? "no connection to the dashboard" : reason || "no new data") + ".";
  // An alert is read aloud when its text changes, so the seconds are not in it.
  if ($("#stale-reason").textContent !== why) $("#stale-reason").textContent = why;
  $("#stale-age").textContent = `Nothing new for ${duration(seconds)}. What you see is from ${clockTime(readAt)}.`;
}

setInterval(showAge, 250);
