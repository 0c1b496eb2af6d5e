// Live updates: the server sends markup rendered from the same templates as the page.

import { $, main } from "./dom.js";
import { appendLines, merge, replaceRegions } from "./merging.js";
import { setServerTime, updateTimes } from "./times.js";

const RECONNECT_MS = 3000;
let source = null;
let retryTimer = 0;
let isLoading = false;

function showConnection(state, text) {
  const element = $("#connection");
  if (!element || element.dataset.state === state) return;
  element.dataset.state = state;
  element.textContent = text;
}

const showLive = () => showConnection("live", "live");
const showLost = () => showConnection("lost", "connection lost, reconnecting");

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
  on("regions", (update) => { showLive(); replaceRegions(update.html); });
  on("job", (update) => {
    showLive();
    replaceRegions(update.html);
    appendLines(update.append);
    if (update.state !== main().dataset.pageState) reload();
  });
  on("unavailable", () => showConnection("lost", "database unavailable, retrying"));
  on("deleted", reload);
  on("end", () => { disconnect(); reload(); });
  source.onerror = () => {
    if (!source) return;
    showLost();
    // An EventSource gives up after an HTTP error, but the server may recover.
    if (source.readyState === EventSource.CLOSED) {
      disconnect();
      retryTimer = setTimeout(reload, RECONNECT_MS, true);
    }
  };
}

export function disconnect() {
  clearTimeout(retryTimer);
  source?.close();
  source = null;
}

// Fetches the page again and merges it, when more than its live regions has changed.
export async function reload(again = false) {
  if (isLoading) return;
  isLoading = true;
  try {
    const response = await fetch(location.href.replace(/#.*/, ""), { headers: { accept: "text/html" } });
    if (response.redirected && new URL(response.url).pathname !== location.pathname) return location.reload();
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (response.status >= 500) throw new Error("unavailable");
    $("#main .notice")?.remove();
    document.title = fresh.title;
    merge(main(), $("#main", fresh));
    updateTimes(main());
    announceStatus();
    if (!main().dataset.live) { disconnect(); showConnection("none", ""); }
    else if (!source) connect();
  } catch {
    showLost();
    if (!source || again) retryTimer = setTimeout(reload, RECONNECT_MS, true);
  } finally {
    isLoading = false;
  }
}

// Tells screen readers when the status of the job changes, but not each step of its progress.
let announced = null;
export function announceStatus() {
  const status = $("#job-state .status")?.textContent.trim();
  if (announced !== null && status && status !== announced && $("#announcement"))
    $("#announcement").textContent = `The job is ${status.slice(1).trim()}.`;
  announced = status ?? null;
}
