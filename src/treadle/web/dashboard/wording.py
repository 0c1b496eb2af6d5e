"""How values look on a page."""

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from treadle.words.payload import Json

# Of one value: more than anybody reads, and less than a browser stumbles over.
LIMIT = 60_000
OUTCOMES = {
    "done": "Done",
    "unfit": "Not done: as the job is now, that is not possible, or nothing would change",
    "busy": "Not done: somebody else holds the job at this moment; try again",
    "missing": "Not done: it is not there any more",
}
_ACTIONS = {
    "retry": "try again",
    "cancel": "cancel",
    "delete": "delete",
    "run_now": "run now",
    "priority": "change of priority",
    "pause": "pause",
    "resume": "resume",
}
_MANY = {
    "done": "changed",
    "unfit": "left as they are",
    "busy": "held by somebody else",
    "missing": "not there any more",
}
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


def said(query: Mapping[str, str]) -> dict[str, str]:
    """What came of a change, which the address only names: by outcome, a sentence of ours."""
    if query.get("bulk") in _ACTIONS:
        counts = {name: int(query[name]) for name in OUTCOMES if _COUNT.fullmatch(query.get(name, ""))}
        words = [f"{counts[name]:,} {_MANY[name]}" for name in counts if counts[name] or name == "done"]
        more = " There are more: choose them again to go on." if query.get("next") else ""
        return {"done": f"{', '.join(words)} ({_ACTIONS[query['bulk']]}).{more}"} if words else {}
    return {
        name: f"{sentence} ({_ACTIONS[query[name]]})."
        for name, sentence in OUTCOMES.items()
        if query.get(name) in _ACTIONS
    }


def lines(value: str) -> str:
    """Of any number of lines; what would turn the direction of the text around is shown instead of obeyed."""
    cut = value[:LIMIT]
    if not (cut.isascii() and cut.replace("\n", "").replace("\t", "").isprintable()):
        cut = "".join(each if each in "\n\t" else _visible(each) for each in cut.replace("\r\n", "\n"))
    return cut if len(value) <= LIMIT else f"{cut}\n… and {len(value) - LIMIT:,} characters more"


def pretty(value: Json) -> str:
    return lines(json.dumps(value, indent=2, ensure_ascii=False))


def short(job_id: UUID) -> str:
    """The end of it: the beginning is the time, and jobs of one moment share it."""
    return str(job_id)[-8:]


def utc(moment: datetime) -> str:
    """For whoever has no script; the others see their own time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _visible(each: str) -> str:
    if unicodedata.category(each) in ("Cc", "Cf", "Cs") or each in "\u2028\u2029":
        return f"\\u{ord(each):04x}"
    return each
