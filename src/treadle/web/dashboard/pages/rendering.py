"""Renders pages and parts of pages from templates. All values are escaped as text; only templates contain markup."""

from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from treadle.text.masking import masked
from treadle.web.dashboard.pages import formatting
from treadle.web.dashboard.pages.charts import brief
from treadle.web.dashboard.pages.remedies import linked
from treadle.web.dashboard.routes import Context
from treadle.web.dashboard.security.access import Role
from treadle.words.changes import AUDIT_ACTIONS
from treadle.words.formatting import count, facts, pace, printable, rate, share, short_id, span

_templates = Environment(
    loader=PackageLoader("treadle.web.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {
    "action_name": lambda action: AUDIT_ACTIONS.get(action, action),
    "brief": brief,
    "clock": formatting.clock,
    "count": count,
    "digest": formatting.digest,
    "facts": facts,
    "line": printable,
    "linked": linked,
    "lines": formatting.lines,
    "masked": masked,
    "pace": pace,
    "pretty": formatting.pretty,
    "rate": rate,
    "share": share,
    "short": short_id,
    "span": span,
    "utc": formatting.utc,
}
# Of a block that is rendered without its page, the imports at the top of the file are missing.
_templates.globals["ui"] = _templates.get_template("macros.html").module

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


def page(context: Context, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    theme = context.request.cookies.get("treadle_theme")
    html = fragment(
        context.url(""),
        context.visitor.role,
        template,
        visitor=context.visitor,
        csrf_token=context.csrf_token,
        theme=theme if theme in THEMES else None,
        notices=formatting.notices(context.request.query_params),
        **values,
    )
    return HTMLResponse(html, status)


def fragment(mount_path: str, role: Role, template: str, **values: Any) -> str:
    """Renders a template. What depends on the browser must come in `values`; the rest depends on the role only."""
    return _templates.get_template(template).render(**_common_values(mount_path, role), **values)


def content(mount_path: str, role: Role, template: str, **values: Any) -> str:
    """The content of a page, without what surrounds it: for the live updates of the whole page."""
    found = _templates.get_template(template)
    return "".join(found.blocks["main"](found.new_context({**_common_values(mount_path, role), **values})))


def _common_values(mount_path: str, role: Role) -> dict[str, Any]:
    def url(path: str, **query: object) -> str:
        given = {name: value for name, value in query.items() if value is not None}
        return f"{mount_path}{path}{'?' if given else ''}{urlencode(given, doseq=True)}"

    return {"url": url, "is_operator": role >= Role.OPERATOR}
