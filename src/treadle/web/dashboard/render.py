"""Pages from templates. Everything that goes into one is text: markup is only what the templates say."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from treadle.web.dashboard.gate import Asked

_templates = Environment(
    loader=PackageLoader("treadle.web.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def page(asked: Asked, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(text(asked, template, **values), status)


def text(asked: Asked, template: str, **values: Any) -> str:
    return _templates.get_template(template).render(asked=asked, visitor=asked.visitor, url=asked.url, **values)
