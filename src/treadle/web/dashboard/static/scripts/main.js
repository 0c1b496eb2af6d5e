// Keeps open pages up to date. No library; the pages also work without scripts.

import "./age.js";
import "./bulk.js";
import "./charts.js";
import { announceStatus, connect, disconnect, refreshPeriodically, resume } from "./connection.js";
import "./copying.js";
import { all, main } from "./dom.js";
import "./keyboard.js";
import "./retry.js";
import "./search.js";
import "./selection.js";
import "./theme.js";
import { updateTimes } from "./times.js";

updateTimes();
setInterval(() => { if (!document.hidden) updateTimes(); }, 1000);
announceStatus();
connect();
refreshPeriodically();
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : (main()?.dataset.live || main()?.dataset.refresh) && resume()));
for (const list of all("ol.lines")) list.scrollTop = list.scrollHeight;
