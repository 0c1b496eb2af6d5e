"""Formats values and the results of changes for the pages."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime

from treadle.words.payload import Json

# Of one value. More than anyone reads, and less than what makes a browser slow.
MAX_CHARACTERS = 60_000
# What an action is called after it succeeded, and in front of a reason why it did not.
_ACTIONS = {
    "retry": ("Job retried", "Retry"),
    "cancel": ("Job cancelled", "Cancel"),
    "delete": ("Job deleted", "Delete"),
    "run_now": ("Job scheduled to run now", "Run now"),
    "priority": ("Priority changed", "Change priority"),
    "edit": ("Arguments changed", "Edit"),
    "copy": ("Job copied: this is the new one", "Copy"),
    "signal": ("Signal sent", "Send signal"),
    "pause": ("Paused", "Pause"),
    "resume": ("Resumed", "Resume"),
    "concurrency": ("Concurrency changed", "Change concurrency"),
    "run": ("Job enqueued", "Run now"),
    "set": ("Limit changed", "Change limit"),
    "reset": ("Limit reset", "Reset limit"),
    "mute": ("Muted", "Mute"),
    "unmute": ("Unmuted", "Unmute"),
}
_FAILURES = {
    "unfit": "the job's state does not allow it, or nothing would change",
    "busy": "the job is locked by another transaction; try again",
    "missing": "the job no longer exists",
}
_UNCHANGED = {
    "pause": "It is already paused.",
    "resume": "It is not paused.",
    "reset": "It was not changed.",
    "unmute": "It is not muted.",
    "concurrency": "It is already the concurrency of this worker.",
}
_BULK_OUTCOMES = {
    "done": "changed",
    "unfit": "skipped",
    "busy": "locked by another transaction",
    "missing": "no longer exist",
}
_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)


def notices(query: Mapping[str, str]) -> dict[str, str]:
    """The result of a change as a sentence, by outcome. The URL contains only the names of the outcome and the action,
    so that a link cannot put other texts on the page."""
    if query.get("bulk") in _ACTIONS:
        counts = {name: int(query[name]) for name in _BULK_OUTCOMES if _COUNT.fullmatch(query.get(name, ""))}
        parts = [f"{counts[name]:,} {_BULK_OUTCOMES[name]}" for name in counts if counts[name] or name == "done"]
        more = " More jobs match: select them again to continue." if query.get("next") else ""
        return {"done": f"{_ACTIONS[query['bulk']][1]}: {', '.join(parts)}.{more}"} if parts else {}
    found = {}
    if query.get("done") in _ACTIONS:
        found["done"] = f"{_ACTIONS[query['done']][0]}."
    for outcome, reason in _FAILURES.items():
        if query.get(outcome) in _ACTIONS:
            action = query[outcome]
            found[outcome] = _UNCHANGED.get(action) or f"{_ACTIONS[action][1]} failed: {reason}."
    return found


def sentence(message: str) -> str:
    """An error message, which starts in lower case and has no full stop, as a sentence."""
    return f"{message[:1].upper()}{message[1:]}{'' if message.endswith('.') else '.'}"


def lines(value: str) -> str:
    """A text of any number of lines. Control characters, and those that reverse the text direction, are escaped."""
    cut = value[:MAX_CHARACTERS]
    if not (cut.isascii() and cut.replace("\n", "").replace("\t", "").isprintable()):
        cut = "".join(each if each in "\n\t" else _visible(each) for each in cut.replace("\r\n", "\n"))
    return cut if len(value) <= MAX_CHARACTERS else f"{cut}\n… and {len(value) - MAX_CHARACTERS:,} more characters"


def pretty(value: Json) -> str:
    return lines(json.dumps(value, indent=2, ensure_ascii=False))


def digest(text: str) -> str:
    """Of a name, for the id of an element: ids contain nothing that was stored."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def utc(moment: datetime) -> str:
    """For browsers without JavaScript; the script replaces it with local time."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(moment: datetime) -> str:
    """For the axis of a chart."""
    return moment.astimezone(UTC).strftime("%H:%M")


def _visible(each: str) -> str:
    if unicodedata.category(each) in ("Cc", "Cf", "Cs") or each in "\u2028\u2029":
        return f"\\u{ord(each):04x}"
    return each
