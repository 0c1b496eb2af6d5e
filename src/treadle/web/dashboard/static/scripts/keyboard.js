// Keyboard shortcuts. The dialog of "?" in base.html lists them.

import { $, all } from "./dom.js";
import { openPalette } from "./palette.js";

const PAGES = { o: "", j: "jobs", e: "errors", q: "queues", f: "workflows", s: "schedules", l: "limits", w: "workers", a: "audit", h: "health" };
const SEQUENCE_MS = 1500;
let wentAt = -Infinity; // when g was pressed

const root = () => document.body.dataset.root;
// The first link of each row, of the first table or list that has any.
const ROWS = ["table.jobs tbody th a", "main tbody th a", "ul.running li > a:first-child"];
const rowLinks = () => ROWS.map((selector) => all(selector)).find((links) => links.length) ?? [];

function move(by) {
  const links = rowLinks();
  const row = document.activeElement?.closest("tr, li");
  const at = links.findIndex((link) => link === document.activeElement || link.closest("tr, li") === row);
  links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

function select() {
  const box = document.activeElement?.closest("tr")?.querySelector('input[name="ids"]');
  if (!box) return;
  box.checked = !box.checked;
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

function search() {
  if ($("#search")) $("#search").select();
  else location.assign(`${root()}jobs#search`);
}

function closeMenus() {
  for (const menu of all("details.menu[open]")) {
    menu.open = false;
    if (menu.contains(document.activeElement)) $("summary", menu).focus();
  }
}

const SHORTCUTS = {
  "/": search,
  j: () => move(1),
  k: () => move(-1),
  x: select,
  g: () => { wentAt = performance.now(); },
  "?": () => $("#shortcuts").showModal(),
};

function handleKey(event) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    if (!$("#palette") || $("#shortcuts").open) return;
    event.preventDefault();
    return openPalette();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  if (event.key === "Escape") return closeMenus();
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.nodeName) && event.target.type !== "checkbox") return;
  const page = performance.now() - wentAt < SEQUENCE_MS ? PAGES[event.key] : undefined;
  wentAt = -Infinity;
  const act = page === undefined ? SHORTCUTS[event.key] : () => location.assign(root() + page);
  if (!act || !$("#shortcuts")) return;
  event.preventDefault();
  act();
}

document.addEventListener("keydown", handleKey);
document.addEventListener("click", (event) => {
  if (event.target.closest?.("#show-shortcuts")) $("#shortcuts").showModal();
  if (event.target.closest?.("#show-palette")) openPalette();
});
if (location.hash === "#search") $("#search")?.focus();
