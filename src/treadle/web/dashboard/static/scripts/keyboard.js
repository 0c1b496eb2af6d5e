// Keyboard shortcuts.

import { $, all } from "./dom.js";

function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA|BUTTON|SUMMARY)$/.test(event.target.nodeName) && event.key !== "Escape") return;
  if (event.key === "Escape") return all("details.menu[open]").forEach((menu) => { menu.open = false; });
  if (event.key === "/" && $("#search")) { event.preventDefault(); $("#search").select(); return; }
  const links = all("table.jobs tbody th a");
  if (!links.length || (event.key !== "j" && event.key !== "k")) return;
  const at = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))].focus();
}

document.addEventListener("keydown", handleKey);
