"""Sessions that lock the queue's tables, or rows in them, so that others have to wait."""

from collections.abc import Sequence

from treadle.doctor.facts import TableBlocker
from treadle.doctor.finding import Context, Finding, Severity, ok
from treadle.doctor.text import abbreviated, lines, literal, names, plural
from treadle.words.formatting import span


def check_blockers(context: Context, blockers: Sequence[TableBlocker]) -> list[Finding]:
    tables = [each for each in blockers if each.whole_table and lasts(context, each)]
    rows = [each for each in blockers if not each.whole_table and (each.waited or 0) >= context.limits.blocked_rows]
    bad = roots_first(tables) or roots_first(rows)
    if not bad:
        return [ok("blocked_tables", "No session keeps others from using the queue's tables.")]
    what = names(sorted({f"{context.schema}.{name}" for each in bad for name in each.tables}))
    return [
        Finding(
            "blocked_tables",
            Severity.CRITICAL if tables else Severity.WARNING,
            f"A session has locked {what}: workers and applications wait for it."
            if tables
            else f"A session has locked rows of {what}, and others wait for them.",
            lines([described(each) for each in bad]),
            "Commit or roll back in that client, or end it:\n"
            + lines([end_statement(each) for each in bad if not each.waits] or [end_statement(each) for each in bad])
            + "\nTo prevent it: set idle_in_transaction_session_timeout and lock_timeout for the role.",
        )
    ]


def lasts(context: Context, blocker: TableBlocker) -> bool:
    """A migration, or the end of a vacuum, has such locks for a moment."""
    return blocker.confirmed or max(blocker.seconds or 0, blocker.waited or 0) >= context.limits.blocked


def roots_first(blockers: Sequence[TableBlocker]) -> list[TableBlocker]:
    """Those that wait for another one come last."""
    return sorted(blockers, key=lambda each: (each.waits, -(each.seconds or 0)))


def described(each: TableBlocker) -> str:
    parts = [f"prepared transaction {each.prepared}" if each.prepared else f"process {each.pid}"]
    parts += [f"user {each.user}"] if each.user else []
    parts += [f"application {each.application}"] if each.application else []
    parts += [f"from {each.client}"] if each.pid and each.client else []
    parts += [each.state] if each.state else []
    parts += [] if each.seconds is None else [f"open for {span(each.seconds)}"]
    parts += ["itself waits for a lock"] if each.waits else []
    parts += [f"{plural(each.waiting, 'session')} waiting"] if each.waiting else []
    if each.pid:
        parts += [f"last statement: {abbreviated(each.query)}" if each.query else "statement not visible"]
    return ", ".join(parts)


def end_statement(each: TableBlocker) -> str:
    if each.prepared:
        return f"rollback prepared {literal(each.prepared)};"
    return f"select pg_terminate_backend({each.pid});"
