"""The settings of a job type, if the application of the dashboard declares it."""

from typing import Any, NamedTuple

from treadle.app.treadle import Treadle
from treadle.words.duration import duration
from treadle.words.formatting import span
from treadle.words.retries import Backoff


class Settings(NamedTuple):
    items: list[tuple[str, str]]
    """Name and value."""


def settings_of(app: Treadle, kind: str, name: str) -> Settings | None:
    """None: the program of the dashboard does not know the type. `treadle dashboard` knows no application; one that is
    mounted in yours does."""
    if kind != "type" or name not in app.job_types:
        return None
    function = app.function(name)
    defaults: dict[str, Any] = dict(function.defaults)
    policy = function.policy
    items = [
        ("Function", f"{function.function.__module__}.{function.function.__qualname__}"),
        ("Attempts", _text(policy.retry.max_attempts)),
        ("Queue", _text(defaults.get("queue"))),
        ("Priority", _text(defaults.get("priority"))),
        ("Timeout", _seconds(policy.timeout)),
        ("Deadline", _seconds(policy.deadline)),
        ("Retries after", _backoff(policy.retry.backoff or Backoff())),
        ("Runs in", "a child process" if policy.process else "the event loop" if function.is_async else "a thread"),
        ("Memory limit", _text(policy.memory_limit)),
    ]
    return Settings([(label, value) for label, value in items if value])


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "" if value is None else span(value)


def _backoff(backoff: Backoff) -> str:
    first, limit = (duration(each).total_seconds() for each in (backoff.first, backoff.limit))
    grows = "" if backoff.factor == 1 else f", times {backoff.factor:g} each time, at most {span(limit)}"
    jitter = f", with {backoff.jitter:.0%} jitter" if backoff.jitter else ""
    return f"{span(first)}{grows}{jitter}"
