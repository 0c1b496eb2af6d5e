// Live updates: the server sends markup rendered from the same templates as the page.

import { STALE_MS, setFresh, setUnavailable, silence } from "./age.js";
import { offerCopying } from "./copying.js";
import { $, main } from "./dom.js";
import { clearNew, updateList } from "./list.js";
import { appendLines, merge, replaceRegions } from "./merging.js";
import { setServerTime, updateTimes } from "./times.js";

const RECONNECT_MS = 3000;
// A server that has said nothing for this long may never do so again: an EventSource does not notice.
const SILENT_MS = 10000;
// Pages answer within 3 seconds, if only with an error.
const FETCH_MS = 4000;
let source = null;
let retryTimer = 0;
let isLoading = false;

function showConnection(state, text) {
  const element = $("#connection");
  if (!element || (element.dataset.state === state && element.textContent === text)) return;
  element.dataset.state = state;
  element.textContent = text;
}

function showLive() {
  showConnection("live", "live");
  setFresh();
}

const showLost = () => showConnection("lost", "connection lost, reconnecting");

function showUnavailable(reason) {
  showConnection("lost", "database unavailable, retrying");
  setUnavailable(reason);
}

function on(name, handle) {
  source.addEventListener(name, (event) => {
    const update = JSON.parse(event.data);
    if (update.at) setServerTime(update.at);
    handle(update);
  });
}

export function connect() {
  const address = main()?.dataset.live;
  disconnect();
  if (!address || document.hidden) return;
  source = new EventSource(address);
  on("regions", (update) => {
    showLive();
    replaceRegions(update.html);
    if (update.title) document.title = update.title;
  });
  on("rows", (update) => { showLive(); updateList(update); });
  on("job", (update) => {
    showLive();
    replaceRegions(update.html);
    appendLines(update.append);
    if (update.state !== main().dataset.pageState) reload();
  });
  on("unavailable", (update) => showUnavailable(update.reason));
  on("deleted", reload);
  on("end", () => { disconnect(); reload(); });
  source.onerror = () => {
    if (!source) return;
    showLost();
    // An EventSource gives up after an HTTP error, but the server may recover.
    if (source.readyState === EventSource.CLOSED) {
      disconnect();
      retryTimer = setTimeout(resume, RECONNECT_MS, true);
    }
  };
}

export function disconnect() {
  clearTimeout(retryTimer);
  source?.close();
  source = null;
}

// After a pause: a list keeps its rows, and is told what has changed; other pages are fetched again.
export const resume = (again = false) => (main().dataset.list ? connect() : reload(again));

// Fetches the page again and merges it, when more than its live regions has changed.
export async function reload(again = false) {
  if (isLoading) return;
  isLoading = true;
  try {
    const headers = { accept: "text/html" };
    const response = await fetch(location.href.replace(/#.*/, ""), { headers, signal: AbortSignal.timeout(FETCH_MS) });
    if (response.redirected && new URL(response.url).pathname !== location.pathname) return location.reload();
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (response.status >= 500) {
      showUnavailable($("[role=alert]", fresh)?.textContent.replace(/\.$/, ""));
      throw new Error("unavailable");
    }
    $("#main .notice")?.remove();
    document.title = fresh.title;
    clearNew();
    merge(main(), $("#main", fresh));
    updateTimes(main());
    offerCopying();
    announceStatus();
    setFresh();
    if (main().dataset.refresh) showLive();
    else if (!main().dataset.live) { disconnect(); showConnection("none", ""); }
    else if (!source || main().dataset.list) connect();
  } catch {
    showLost();
    if (!main().dataset.refresh && (!source || again)) retryTimer = setTimeout(reload, RECONNECT_MS, true);
  } finally {
    isLoading = false;
  }
}

// Pages without a stream are fetched again every few seconds.
export function refreshPeriodically() {
  const seconds = main()?.dataset.refresh;
  if (!seconds) return;
  showLive();
  setInterval(() => { if (!document.hidden) reload(); }, seconds * 1000);
}

setInterval(() => {
  if (source && silence() > STALE_MS) showLost();
}, 500);
setInterval(() => {
  if (source && silence() > SILENT_MS) connect();
}, SILENT_MS / 2);

// Tells screen readers when the status of the job changes, but not each step of its progress.
let announced = null;
export function announceStatus() {
  const status = $("#job-state .status")?.textContent.trim();
  if (announced !== null && status && status !== announced && $("#announcement"))
    $("#announcement").textContent = `The job is ${status.slice(1).trim()}.`;
  announced = status ?? null;
}

document.addEventListener("click", (event) => { if (event.target.id === "new-jobs") reload(); });
