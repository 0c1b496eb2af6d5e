// Keeps open pages up to date. No library; the pages also work without this script.
// The server sends markup rendered from the same templates as the page. It is parsed without running scripts, and merged
// into the existing elements.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const main = () => $("#main");
let clockOffset = 0; // the server's clock minus the browser's, in milliseconds

// Times, in the reader's time zone

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const MINUTES = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const SECONDS = { ...MINUTES, second: "2-digit" };
const DATE = { month: "short", day: "numeric" };
const formatted = (moment, options) => new Intl.DateTimeFormat("en", options).format(moment);

function relative(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) || UNITS[3];
  return RELATIVE.format(Math.round(seconds / size), unit).replace(".", "");
}

function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor(whole / 3600) % 24}h`;
}

function updateTime(element) {
  const moment = new Date(element.dateTime);
  if (isNaN(moment)) return;
  const now = Date.now() + clockOffset;
  const seconds = (moment - now) / 1000;
  const isToday = new Date(now).toDateString() === moment.toDateString();
  const local = formatted(moment, isToday ? SECONDS : { ...DATE, ...SECONDS });
  const text = {
    ago: () => relative(seconds),
    since: () => duration(-seconds),
    clock: () => local,
    axis: () => formatted(moment, isToday ? MINUTES : { ...DATE, ...MINUTES }),
    both: () => `${local} (${relative(seconds)})`,
  }[element.dataset.format]?.();
  if (text && element.textContent !== text) element.textContent = text;
  if (!element.title) element.title = formatted(moment, { dateStyle: "full", timeStyle: "long" });
}

// In a drawing, which cannot have <time> elements: how long it has been since then.
function updateSince(element) {
  const moment = new Date(element.dataset.since);
  if (!isNaN(moment)) element.textContent = duration((Date.now() + clockOffset - moment) / 1000);
}

function updateTimes(within = document) {
  all("time[data-format]", within).forEach(updateTime);
  all("[data-since]", within).forEach(updateSince);
}

// Merging new markup into the page. Unchanged elements stay, and keep their focus, scroll position, input and open state.

function isSame(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

function merge(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.nodeName === "TIME" && old.dateTime === fresh.dateTime && old.dataset.format === fresh.dataset.format) return;
  // Attributes that the reader or this script has set.
  const keep = old.nodeName === "DETAILS" ? ["open"] : old.nodeName === "TIME" ? ["title"] : [];
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !keep.includes(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value && !keep.includes(name)) old.setAttribute(name, value);
  if (old.nodeName === "PROGRESS") old.value = fresh.value;
  if (old.nodeName === "OUTPUT") return;
  mergeChildren(old, fresh);
}

function mergeChildren(old, fresh) {
  let current = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    let found = current;
    if (next.id) while (found && !isSame(found, next)) found = found.nextSibling;
    if (found && isSame(found, next)) {
      while (current !== found) current = remove(current);
      merge(current, next);
      current = current.nextSibling;
    } else {
      old.insertBefore(document.importNode(next, true), current);
    }
  }
  while (current) current = remove(current);
}

function remove(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

const parsed = (html) => new DOMParser().parseFromString(`<body>${html}`, "text/html").body;

function replaceRegions(regions) {
  for (const [id, html] of Object.entries(regions)) {
    const region = document.getElementById(id);
    if (!region) continue;
    mergeChildren(region, parsed(html));
    // The server renders a region once for all browsers, without the CSRF token of this one.
    for (const field of all('input[name="csrf_token"]', region)) field.value = main().dataset.csrfToken;
    updateTimes(region);
  }
}

const MAX_LINES = 500;

function appendLines(lists) {
  for (const [id, html] of Object.entries(lists)) {
    const list = document.getElementById(id);
    if (!list || !html.trim()) continue;
    const last = Number(list.lastElementChild?.dataset.number || 0);
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
    if (!list.children.length) list.textContent = "";
    for (const line of parsed(html).children)
      if (Number(line.dataset.number) > last) list.append(document.importNode(line, true));
    while (list.children.length > MAX_LINES) list.firstElementChild.remove();
    updateTimes(list);
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  }
}

// The connection

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
    if (update.at) clockOffset = new Date(update.at) - Date.now();
    handle(update);
  });
}

function connect() {
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

function disconnect() {
  clearTimeout(retryTimer);
  source?.close();
  source = null;
}

// Fetches the page again and merges it, when more than its live regions has changed.
async function reload(again = false) {
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
function announceStatus() {
  const status = $("#job-state .status")?.textContent.trim();
  if (announced !== null && status && status !== announced && $("#announcement"))
    $("#announcement").textContent = `The job is ${status.slice(1).trim()}.`;
  announced = status ?? null;
}

// Charts: show the numbers at the pointer. Columns of the data table, with labels, by chart.

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

// Job list: selection and keyboard shortcuts

function updateSelection() {
  const boxes = all('input[name="ids"]');
  const count = boxes.filter((box) => box.checked).length;
  const everything = $('input[name="all"]');
  if ($("#selected-count")) $("#selected-count").textContent = everything?.checked || !count ? "" : `${count} selected`;
  const page = $("#select-page");
  if (page) { page.checked = count > 0 && count === boxes.length; page.indeterminate = count > 0 && count < boxes.length; }
}

function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA|BUTTON|SUMMARY)$/.test(event.target.nodeName) && event.key !== "Escape") return;
  if (event.key === "Escape") return all("details.menu[open]").forEach((menu) => { menu.open = false; });
  if (event.key === "/" && $("#search")) { event.preventDefault(); $("#search").select(); return; }
  const links = all("table.jobs tbody th a");
  if (!links.length || (event.key !== "j" && event.key !== "k")) return;
  const at = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))].focus();
}

// Bulk changes: one request, and one transaction, per chunk

async function submitBulk(event) {
  event.preventDefault();
  const form = event.target;
  const panel = $("#bulk-progress");
  const bar = $("progress", panel);
  const result = $("#bulk-result");
  const counts = { done: 0, unfit: 0, busy: 0, missing: 0 };
  const number = (value) => value.toLocaleString("en");
  const fields = new URLSearchParams(new FormData(form));
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

// Theme

function enableThemeButton() {
  const button = $("#theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    const path = new URL(document.body.dataset.root, location.href).pathname;
    document.cookie = `treadle_theme=${next}; path=${path}; max-age=31536000; samesite=lax`;
  });
}

updateTimes();
setInterval(() => { if (!document.hidden) updateTimes(); }, 1000);
enableThemeButton();
announceStatus();
connect();
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : main()?.dataset.live && reload()));
document.addEventListener("pointermove", showNumbers);
document.addEventListener("keydown", handleKey);
document.addEventListener("change", updateSelection);
for (const list of all("ol.lines")) list.scrollTop = list.scrollHeight;
const selectPage = $("#select-page");
if (selectPage) {
  selectPage.closest("label").hidden = false;
  selectPage.addEventListener("change", () => all('input[name="ids"]').forEach((box) => { box.checked = selectPage.checked; }));
}
$("#bulk")?.addEventListener("submit", submitBulk);
const reloadAfter = main()?.dataset.reloadAfter;
if (reloadAfter) setTimeout(() => location.reload(), reloadAfter * 1000);
