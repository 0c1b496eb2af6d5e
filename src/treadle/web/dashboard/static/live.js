// Keeps a page up to date: small, of no library, and a page works without it.
// Whatever comes is markup of our own templates; it is parsed inert and put in the place of what was there before.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const main = () => $("#main");
let ahead = 0; // the server's clock minus ours, in milliseconds

// Times, in the reader's own zone and words

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const exactly = { ...clock, second: "2-digit" };
const date = { month: "short", day: "numeric" };
const format = (moment, options) => new Intl.DateTimeFormat("en", options).format(moment);

function ago(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) || UNITS[3];
  return RELATIVE.format(Math.round(seconds / size), unit).replace(".", "");
}

function lasted(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor(whole / 3600) % 24}h`;
}

function inWords(element) {
  const moment = new Date(element.dateTime);
  if (isNaN(moment)) return;
  const now = Date.now() + ahead;
  const seconds = (moment - now) / 1000;
  const today = new Date(now).toDateString() === moment.toDateString();
  const local = format(moment, today ? exactly : { ...date, ...exactly });
  const said = {
    ago: () => ago(seconds),
    since: () => lasted(-seconds),
    clock: () => local,
    axis: () => format(moment, today ? clock : { ...date, ...clock }),
    both: () => `${local} (${ago(seconds)})`,
  }[element.dataset.as]?.();
  if (said && element.textContent !== said) element.textContent = said;
  if (!element.title) element.title = format(moment, { dateStyle: "full", timeStyle: "long" });
}

const tellTimes = (within = document) => all("time[data-as]", within).forEach(inWords);

// A new tree in the place of an old one: what is the same stays, with its focus, its scrolling and what is open or chosen

function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.nodeName === "TIME" && old.dateTime === fresh.dateTime && old.dataset.as === fresh.dataset.as) return;
  const ours = old.nodeName === "DETAILS" ? ["open"] : old.nodeName === "TIME" ? ["title"] : [];
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !ours.includes(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value && !ours.includes(name)) old.setAttribute(name, value);
  if (old.nodeName === "PROGRESS") old.value = fresh.value;
  if (old.nodeName === "OUTPUT") return;
  children(old, fresh);
}

function children(old, fresh) {
  let here = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    let found = here;
    if (next.id) while (found && !same(found, next)) found = found.nextSibling;
    if (found && same(found, next)) {
      while (here !== found) here = remove(here);
      morph(here, next);
      here = here.nextSibling;
    } else {
      old.insertBefore(document.importNode(next, true), here);
    }
  }
  while (here) here = remove(here);
}

function remove(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

const parsed = (html) => new DOMParser().parseFromString(`<body>${html}`, "text/html").body;

function replace(regions) {
  for (const [id, html] of Object.entries(regions)) {
    const region = document.getElementById(id);
    if (!region) continue;
    children(region, parsed(html));
    // What is the same for everybody comes without the proof of this browser.
    for (const field of all('input[name="proof"]', region)) field.value = main().dataset.proof;
    tellTimes(region);
  }
}

const KEPT = 500;

function append(lists) {
  for (const [id, html] of Object.entries(lists)) {
    const list = document.getElementById(id);
    if (!list || !html.trim()) continue;
    const last = Number(list.lastElementChild?.dataset.number || 0);
    const following = list.scrollHeight - list.scrollTop - list.clientHeight < 30;
    if (!list.children.length) list.textContent = "";
    for (const line of parsed(html).children)
      if (Number(line.dataset.number) > last) list.append(document.importNode(line, true));
    while (list.children.length > KEPT) list.firstElementChild.remove();
    tellTimes(list);
    if (following) list.scrollTop = list.scrollHeight;
  }
}

// The connection

let source = null;
let retry = 0;
let loading = false;

function connection(state, words) {
  const shown = $("#connection");
  if (!shown || shown.dataset.state === state) return;
  shown.dataset.state = state;
  shown.textContent = words;
}

function hear(name, act) {
  source.addEventListener(name, (event) => {
    const news = JSON.parse(event.data);
    if (news.at) ahead = new Date(news.at) - Date.now();
    act(news);
  });
}

const live = () => connection("live", "live");

function connect() {
  const address = main()?.dataset.live;
  disconnect();
  if (!address || document.hidden) return;
  source = new EventSource(address);
  hear("regions", (news) => { live(); replace(news.html); });
  hear("job", (news) => {
    live();
    replace(news.html);
    append(news.append);
    if (news.state !== main().dataset.state) reload();
  });
  hear("away", () => connection("away", "the database is away; trying again"));
  hear("gone", reload);
  hear("end", () => { disconnect(); reload(); });
  source.onerror = () => {
    if (!source) return;
    connection("away", "connection lost; trying again");
    // A refusal is the end of an EventSource, but a server that comes back later is worth another try.
    if (source.readyState === EventSource.CLOSED) {
      disconnect();
      retry = setTimeout(reload, 3000, true);
    }
  };
}

function disconnect() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

// The same page once more, where more of it has changed than its live parts.
async function reload(again = false) {
  if (loading) return;
  loading = true;
  try {
    const answer = await fetch(location.href.replace(/#.*/, ""), { headers: { accept: "text/html" } });
    if (answer.redirected && new URL(answer.url).pathname !== location.pathname) return location.reload();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.status >= 500) throw new Error("away");
    const said = $("#main .notice");
    said?.remove();
    document.title = fresh.title;
    morph(main(), $("#main", fresh));
    tellTimes(main());
    tell();
    if (!main().dataset.live) { disconnect(); connection("none", ""); }
    else if (!source) connect();
  } catch {
    connection("away", "connection lost; trying again");
    if (!source || again) retry = setTimeout(reload, 3000, true);
  } finally {
    loading = false;
  }
}

// Screen readers hear how a job stands when that changes, not each step of its bar.
let told = null;
function tell() {
  const status = $("#now .status")?.textContent.trim();
  if (told !== null && status && status !== told && $("#heard")) $("#heard").textContent = `The job is ${status.slice(1).trim()}.`;
  told = status ?? null;
}

// Charts: the numbers of the span that is pointed at

const COLUMNS = { throughput: [[1, ""]], waiting: [[5, "average "], [6, "longest "]], failures: [[2, "failed "], [3, "tried again "]] };

function point(event) {
  const svg = event.target.closest?.(".plot svg");
  const nth = svg ? Math.floor(((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * svg.dataset.spans) : -1;
  const row = nth < 0 ? null : all(".numbers tbody tr")[nth];
  for (const each of all(".plot svg")) {
    const mark = $(".pointed", each);
    mark.setAttribute("visibility", row ? "visible" : "hidden");
    if (row) mark.setAttribute("x", nth * Number(mark.getAttribute("width")));
  }
  for (const output of all(".chart output"))
    output.textContent = row
      ? `${row.cells[0].textContent}: ` + COLUMNS[output.dataset.of].map(([nth, name]) => name + row.cells[nth].textContent).join(", ")
      : "";
}

// Lists: choosing, and keys

function chosen() {
  const boxes = all('input[name="ids"]');
  const count = boxes.filter((box) => box.checked).length;
  const every = $('input[name="all"]');
  if ($("#chosen-count")) $("#chosen-count").textContent = every?.checked || !count ? "" : `${count} chosen`;
  const head = $("#choose-all");
  if (head) { head.checked = count > 0 && count === boxes.length; head.indeterminate = count > 0 && count < boxes.length; }
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA|BUTTON|SUMMARY)$/.test(event.target.nodeName) && event.key !== "Escape") return;
  if (event.key === "Escape") return all("details.menu[open]").forEach((menu) => { menu.open = false; });
  if (event.key === "/" && $("#search")) { event.preventDefault(); $("#search").select(); return; }
  const links = all("table.jobs tbody th a");
  if (!links.length || (event.key !== "j" && event.key !== "k")) return;
  const at = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))].focus();
}

// Many at once: part after part, each a transaction of its own

async function bulk(event) {
  event.preventDefault();
  const form = event.target;
  const shown = $("#bulk-progress");
  const bar = $("progress", shown);
  const said = $("#bulk-said");
  const total = { done: 0, unfit: 0, busy: 0, missing: 0 };
  const fields = new URLSearchParams(new FormData(form));
  form.hidden = true;
  shown.hidden = false;
  if (!form.dataset.number) bar.removeAttribute("value");
  try {
    for (let cursor = ""; cursor !== null;) {
      if (cursor) fields.set("after", cursor);
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { accept: "application/json" } });
      const news = await answer.json();
      if (!answer.ok) throw new Error(news.error || answer.statusText);
      for (const name of Object.keys(total)) total[name] += news[name] || 0;
      const seen = Object.values(total).reduce((sum, each) => sum + each, 0);
      if (form.dataset.number) bar.value = seen;
      cursor = news.next ?? null;
      said.textContent = `${cursor ? "So far" : "Done"}: ${total.done.toLocaleString("en")} changed` +
        (total.unfit ? `, ${total.unfit.toLocaleString("en")} left as they are` : "") +
        (total.busy ? `, ${total.busy.toLocaleString("en")} held by somebody else` : "") +
        (total.missing ? `, ${total.missing.toLocaleString("en")} not there any more` : "") + ".";
    }
    bar.max = bar.value = 1;
  } catch (error) {
    said.textContent = `Stopped after ${total.done.toLocaleString("en")}: ${error.message}`;
  }
}

// Light and dark

function theme() {
  const button = $("#theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    const path = new URL(document.body.dataset.root, location.href).pathname;
    document.cookie = `treadle_theme=${next}; path=${path}; max-age=31536000; samesite=lax`;
  });
}

tellTimes();
setInterval(() => { if (!document.hidden) tellTimes(); }, 1000);
theme();
tell();
connect();
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : main()?.dataset.live && reload()));
document.addEventListener("pointermove", point);
document.addEventListener("keydown", keys);
document.addEventListener("change", chosen);
for (const list of all("ol.lines")) list.scrollTop = list.scrollHeight;
const head = $("#choose-all");
if (head) {
  head.hidden = false;
  head.addEventListener("change", () => all('input[name="ids"]').forEach((box) => { box.checked = head.checked; }));
}
$("#bulk")?.addEventListener("submit", bulk);
const again = main()?.dataset.again;
if (again) setTimeout(() => location.reload(), again * 1000);
