"""The table of limits and its columns."""

from rich.text import Text

from treadle.cli.top.table import Column, TableSpec
from treadle.text.masking import masked
from treadle.words.formatting import count, printable
from treadle.words.limit_status import LimitStatus


def _key(row: LimitStatus, _: int) -> str:
    return printable(masked(row.key_in_words))


def _used(row: LimitStatus, _: int) -> Text:
    if row.used is None or row.capacity is None:
        return Text("")
    text = f"{count(row.available)} left" if row.available is not None else f"{count(row.used)}/{count(row.capacity)}"
    return Text(text, style="yellow" if row.reached else "")


def _waiting(row: LimitStatus, _: int) -> str:
    return f"{count(row.waiting)}{'' if row.exact else '+'}" if row.starts else ""


def _next(row: LimitStatus, _: int) -> Text:
    return Text(row.next_in_words, style="yellow" if row.paused or row.reached else "")


def is_at_limit(job_type: str, queue: str, limits: list[LimitStatus]) -> bool:
    """Whether jobs of this type and queue wait for a limit."""
    return any(each.waiting and (job_type in each.job_types or queue in each.queues) for each in limits)


LIMITS = TableSpec[LimitStatus](
    name="limits",
    columns=[
        Column("limit", lambda row, _: printable(row.name), 3, grows=True, order=lambda row: row.name),
        Column("key", _key, 2, grows=True),
        Column("allowed", lambda row, _: row.description, 23, min_table_width=90),
        Column("in use", _used, 9, right=True),
        Column(
            "waiting",
            _waiting,
            8,
            right=True,
            # By powers of two, so that those with about as many jobs do not swap places at every refresh.
            order=lambda row: (-row.waiting.bit_length(), not row.reached, not row.paused),
        ),
        Column("next", _next, 14),
        Column("changed by", lambda row, _: printable(row.changed_by or ""), 2, grows=True, min_table_width=110),
    ],
    key=lambda row: (row.name, row.key is not None, row.key or ""),
    sort_by="waiting",
    empty="There are no limits.",
)
