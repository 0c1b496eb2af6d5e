// The command palette: pages, job types, queues, workers, jobs by their ids, and actions.

import { $, all } from "./dom.js";

const MAX_SHOWN = 20;
const FETCH_MS = 3000;
const root = () => document.body.dataset.root;
const isOperator = () => "operator" in document.body.dataset;
const list = (name, value, more = "") => `${root()}jobs?${new URLSearchParams({ [name]: value })}${more}`;
let names = { types: [], queues: [], workers: [] };
let asked = null; // the text that the names were fetched for
let options = [];
let active = 0;

function pages() {
  return all("nav[aria-label=Main] a").map((link) => ({ kind: "Page", label: link.textContent, go: link.href }));
}

function actions() {
  const found = [{ kind: "Action", label: "Keyboard shortcuts", run: () => $("#shortcuts").showModal() },
    { kind: "Action", label: "Switch between light and dark theme", run: () => $("#theme").click() },
    { kind: "Action", label: "Copy link to this page", run: () => navigator.clipboard?.writeText(location.href) }];
  for (const status of ["pending", "running", "failed"])
    found.push({ kind: "Jobs", label: `${status.charAt(0).toUpperCase()}${status.slice(1)} jobs`, go: list("status", status) });
  if (isOperator()) found.push({ kind: "Action", label: "Pause a type, a queue or everything…", go: `${root()}pause` });
  return found;
}

// Without a text, only what the names stand for.
function named(text) {
  const found = [];
  for (const name of names.types) {
    found.push({ kind: "Type", label: name, go: `${root()}type?${new URLSearchParams({ name })}` });
    if (text) found.push({ kind: "Type", label: `${name}: jobs`, go: list("type", name) });
    if (text) found.push({ kind: "Type", label: `${name}: failed jobs`, go: list("type", name, "&status=failed") });
    if (text && isOperator()) found.push({ kind: "Action", label: `Pause type ${name}…`, go: `${root()}pause?${new URLSearchParams({ job_type: name })}` });
  }
  for (const name of names.queues) {
    found.push({ kind: "Queue", label: name, go: `${root()}queue?${new URLSearchParams({ name })}` });
    if (text && isOperator()) found.push({ kind: "Action", label: `Pause queue ${name}…`, go: `${root()}pause?${new URLSearchParams({ queue: name })}` });
  }
  for (const name of names.workers) found.push({ kind: "Worker", label: name, go: list("worker", name) });
  return found;
}

function jobs(text) {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return [{ kind: "Job", label: text, go: `${root()}jobs/${text}` }];
  if (!text) return [];
  const isDigits = /^[0-9a-f-]{8,}$/i.test(text);
  return [{ kind: isDigits ? "Job" : "Search", label: `${isDigits ? "Jobs whose id begins or ends with" : "Search jobs for"} ${text}`, go: list("search", text) }];
}

// A label that begins with the text comes before one that has it elsewhere.
function matching(text) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = ({ label, kind }) => {
    const words = `${label} ${kind}`.toLowerCase();
    if (!wanted.every((each) => words.includes(each))) return -1;
    return wanted.length && label.toLowerCase().startsWith(wanted[0]) ? 2 : 1;
  };
  const ranked = [...pages(), ...named(text), ...actions()].map((option) => [rank(option), option]).filter(([score]) => score > 0);
  return ranked.sort(([one], [other]) => other - one).map(([, option]) => option);
}

function show() {
  const text = $("#palette-input").value.trim();
  const exact = jobs(text);
  const isId = exact[0]?.kind === "Job";
  const found = matching(text).slice(0, MAX_SHOWN);
  options = isId ? [...exact, ...found] : [...found, ...exact];
  active = 0;
  $("#palette-options").replaceChildren(...options.map((option, nth) => {
    const item = document.createElement("li");
    item.id = `palette-${nth}`;
    item.role = "option";
    const label = document.createElement("span");
    label.textContent = option.label;
    const kind = document.createElement("span");
    kind.className = "muted";
    kind.textContent = option.kind;
    item.append(label, kind);
    return item;
  }));
  mark();
}

function mark() {
  all("#palette-options li").forEach((item, nth) => {
    item.ariaSelected = String(nth === active);
    if (nth === active) item.scrollIntoView({ block: "nearest" });
  });
  $("#palette-input").setAttribute("aria-activedescendant", options.length ? `palette-${active}` : "");
}

async function fetchNames(text) {
  if (asked === text) return;
  asked = text;
  try {
    const query = text ? `?${new URLSearchParams({ search: text.slice(0, 50) })}` : "";
    const response = await fetch(`${root()}api/names${query}`, { signal: AbortSignal.timeout(FETCH_MS) });
    if (!response.ok || asked !== text) return;
    names = await response.json();
  } catch {
    return; // what needs no database is offered anyway
  }
  if ($("#palette").open) show();
}

function choose(option) {
  $("#palette").close();
  if (option.run) option.run();
  else location.assign(option.go);
}

export function openPalette() {
  $("#palette-input").value = "";
  $("#palette").showModal();
  asked = null;
  show();
  fetchNames("");
}

let waiting = 0;
$("#palette-input")?.addEventListener("input", () => {
  show();
  clearTimeout(waiting);
  // Of many names, the server sends those that match.
  if (Math.max(names.types.length, names.queues.length, names.workers.length) >= 200 || asked)
    waiting = setTimeout(() => fetchNames($("#palette-input").value.trim()), 200);
});
$("#palette-input")?.addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) active = (active + by + options.length) % (options.length || 1);
  else if (event.key === "Enter" && options[active]) choose(options[active]);
  else return;
  event.preventDefault();
  mark();
});
$("#palette-options")?.addEventListener("click", (event) => {
  const nth = all("#palette-options li").indexOf(event.target.closest("li"));
  if (options[nth]) choose(options[nth]);
});
// A click beside a dialog closes it.
document.addEventListener("click", (event) => { if (event.target.nodeName === "DIALOG") event.target.close(); });
