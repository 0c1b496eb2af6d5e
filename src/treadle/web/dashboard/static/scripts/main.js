// Keeps open pages up to date. No library; the pages also work without scripts.

import "./bulk.js";
import "./charts.js";
import { announceStatus, connect, disconnect, reload } from "./connection.js";
import { all, main } from "./dom.js";
import "./keyboard.js";
import "./search.js";
import "./selection.js";
import "./theme.js";
import { updateTimes } from "./times.js";

updateTimes();
setInterval(() => { if (!document.hidden) updateTimes(); }, 1000);
announceStatus();
connect();
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : main()?.dataset.live && reload()));
for (const list of all("ol.lines")) list.scrollTop = list.scrollHeight;
const reloadAfter = main()?.dataset.reloadAfter;
if (reloadAfter) setTimeout(() => location.reload(), reloadAfter * 1000);
