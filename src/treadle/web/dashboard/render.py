"""Pages from templates. Everything that goes into one is text: markup is only what the templates say."""

from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from treadle.web.dashboard import wording
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.charts import brief
from treadle.web.dashboard.routes import Asked
from treadle.words.masking import masked
from treadle.words.phrases import count, facts, pace, printable, rate, span, standing

_templates = Environment(
    loader=PackageLoader("treadle.web.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {
    "brief": brief,
    "count": count,
    "facts": facts,
    "line": printable,
    "lines": wording.lines,
    "masked": masked,
    "pace": pace,
    "pretty": wording.pretty,
    "rate": rate,
    "short": wording.short,
    "span": span,
    "standing": standing,
    "utc": wording.utc,
}

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

THEMES = ("light", "dark")


def page(asked: Asked, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    theme = asked.request.cookies.get("treadle_theme")
    said = wording.said(asked.request.query_params)
    return HTMLResponse(
        text(asked, template, theme=theme if theme in THEMES else None, said=said, **values),
        status,
    )


def text(asked: Asked, template: str, **values: Any) -> str:
    return fragment(asked.url(""), asked.visitor.role, template, asked=asked, visitor=asked.visitor, **values)


def fragment(root: str, role: Role, template: str, **values: Any) -> str:
    """A part of a page that is the same for everybody with this role."""

    def url(path: str, **query: object) -> str:
        given = {name: value for name, value in query.items() if value is not None}
        return f"{root}{path}{'?' if given else ''}{urlencode(given, doseq=True)}"

    operates = role >= Role.OPERATOR
    return _templates.get_template(template).render(url=url, operates=operates, **values)
