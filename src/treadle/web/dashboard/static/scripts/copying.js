// The menu with commands to copy.

import { $, all } from "./dom.js";

const address = new URL(document.body.dataset.root, location.href).origin;

// Ends the notice of the last copy.
let restore = () => {};

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure connection there is no clipboard: select the text instead.
    const shown = document.getElementById(button.dataset.copy);
    if (shown) getSelection().selectAllChildren(shown);
    return;
  }
  restore();
  const label = [...button.childNodes]; // a part of it is hidden
  $("#copied").textContent = "Copied.";
  button.replaceChildren("Copied");
  const timer = setTimeout(() => restore(), 1500);
  restore = () => {
    clearTimeout(timer);
    button.replaceChildren(...label);
    $("#copied").textContent = "";
    restore = () => {};
  };
}

export function offerCopying() {
  for (const text of all(".copyable pre"))
    if (text.textContent.includes("$DASHBOARD")) text.textContent = text.textContent.replace("$DASHBOARD", address);
  for (const hidden of all("[data-copy], .copy-link")) hidden.hidden = false;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-link]");
  if (!button) return;
  copy(button, button.dataset.copy ? document.getElementById(button.dataset.copy).textContent : location.href);
});
offerCopying();
