// Times, in the reader's time zone.

import { all } from "./dom.js";

let clockOffset = 0; // the server's clock minus the browser's, in milliseconds

export const now = () => Date.now() + clockOffset;
export function setServerTime(moment) { clockOffset = new Date(moment) - Date.now(); }

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
  const seconds = (moment - now()) / 1000;
  const isToday = new Date(now()).toDateString() === moment.toDateString();
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
  if (!isNaN(moment)) element.textContent = duration((now() - moment) / 1000);
}

// A worker is not shown as alive any longer than its lease lasts, even if the page is not updated.
function updateUntil(element) {
  if (now() < new Date(element.dataset.until)) return;
  element.className = "status pending";
  element.textContent = "○ no heartbeat";
}

export function updateTimes(within = document) {
  all("[data-until]", within).forEach(updateUntil);
  all("time[data-format]", within).forEach(updateTime);
  all("[data-since]", within).forEach(updateSince);
}
