// Small helpers for the document.

export const $ = (selector, within = document) => within.querySelector(selector);
export const all = (selector, within = document) => [...within.querySelectorAll(selector)];
export const main = () => $("#main");
