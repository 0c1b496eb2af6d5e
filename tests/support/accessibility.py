"""Checks a page with axe: names, roles, order of headings, contrast in both themes."""

from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

# Axe takes seconds for a page with a thousand elements, nearly all of them for contrast. So of siblings that are alike,
# such as the rows of a table, only some are kept: the same elements with the same classes, the same attributes, and
# text or no text in the same places.
REMOVE_ALIKE = """(kept) => {
    const told = /^(class|role|type|data-|aria-)/;
    const attributes = (element) => [...element.attributes].map(({ name, value }) =>
        told.test(name) && value.length < 20 ? `${name}=${value}` : name);
    const shape = (element) => `${element.tagName} ${attributes(element)} ${[...element.childNodes].map((each) =>
        each.nodeType === Node.ELEMENT_NODE ? `(${shape(each)})` : each.nodeValue.trim() && "text")}`;
    const visit = (element) => {
        const seen = new Map();
        for (const child of [...element.children]) {
            const found = shape(child);
            seen.set(found, (seen.get(found) ?? 0) + 1);
            if (seen.get(found) > kept) child.remove();
            else visit(child);
        }
    };
    visit(document.querySelector("main"));
}"""
ALL_RULES = "axe.run({resultTypes: ['violations']})"
# The dark theme differs in its colors only, and elements that are alike have the same ones.
CONTRAST = "axe.run({runOnly: ['color-contrast'], resultTypes: ['violations']})"


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """The rules that are violated, and by which elements. Afterwards the page has fewer rows, and the dark theme."""
    page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = []
    themes: list[tuple[Literal["light", "dark"], int, str]] = [("light", 2, ALL_RULES), ("dark", 1, CONTRAST)]
    for theme, kept, rules in themes:
        page.evaluate(REMOVE_ALIKE, kept)
        page.emulate_media(color_scheme=theme)
        found += page.evaluate(rules)["violations"]
    return [(each["id"], [node["html"][:150] for node in each["nodes"][:3]]) for each in found]
