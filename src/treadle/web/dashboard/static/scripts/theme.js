// The button that switches between the light and the dark theme.

import { $ } from "./dom.js";

function enableThemeButton() {
  const button = $("#theme");
  button.hidden = false;
  if ($("#show-palette")) $("#show-palette").hidden = false;
  button.addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    const path = new URL(document.body.dataset.root, location.href).pathname;
    document.cookie = `treadle_theme=${next}; path=${path}; max-age=31536000; samesite=lax`;
  });
}

enableThemeButton();
