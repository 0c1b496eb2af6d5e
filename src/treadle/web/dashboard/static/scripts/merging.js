// Merges new markup into the page. Unchanged elements stay, and keep their focus, scroll position, input and open state.
// The markup is parsed without running scripts.

import { updateTimes } from "./times.js";

function isSame(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

export function merge(old, fresh) {
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
  for (const next of old.dataset?.keepOrder === undefined ? [...fresh.childNodes] : inOrder(old, fresh)) {
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

// Rows stay where they are while somebody looks, whatever their numbers; new ones come last.
function inOrder(old, fresh) {
  const positions = new Map([...old.children].map((child, position) => [child.id, position]));
  const position = (child) => positions.get(child.id) ?? positions.size;
  return [...fresh.children].sort((one, other) => position(one) - position(other));
}

function remove(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

const parsed = (html) => new DOMParser().parseFromString(`<body>${html}`, "text/html").body;

export function replaceRegions(regions) {
  for (const [id, html] of Object.entries(regions)) {
    const region = document.getElementById(id);
    if (!region) continue;
    mergeChildren(region, parsed(html));
    updateTimes(region);
  }
}

const MAX_LINES = 500;

export function appendLines(lists) {
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
