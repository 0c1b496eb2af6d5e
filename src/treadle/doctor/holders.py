"""Who keeps old rows from being removed. While anybody does, every claim of a busy queue walks over more of them."""

from collections.abc import Sequence

from treadle.doctor.facts import Holder, Server, Slot
from treadle.doctor.finding import Case, Finding, Level, level_of, most, ok
from treadle.doctor.telling import amount, beginning, identifier, lines, literal, several
from treadle.words.phrases import span

NAMES = ("held_snapshot", "prepared_transaction", "replication_slot", "standby_feedback", "open_elsewhere")


def judge_holders(case: Case, server: Server, holders: Sequence[Holder]) -> list[Finding]:
    here = [each for each in holders if each.here]
    return [
        _snapshots(case, server, [each for each in here if each.kind == "session"]),
        _prepared(case, [each for each in here if each.kind == "prepared"]),
        _slots(case, [each for each in here if each.kind == "slot"]),
        _standbys(case, [each for each in here if each.kind == "standby"]),
        _elsewhere(case, [each for each in holders if not each.here]),
    ]


def _snapshots(case: Case, server: Server, sessions: Sequence[Holder]) -> Finding:
    bad = [(level, each) for each in sessions if (level := snapshot_level(case, each)) is not Level.OK]
    if not bad:
        if not server.sees_all:
            return Finding(
                "held_snapshot",
                Level.NOTE,
                "Only connections of this role can be seen: whether others hold old rows back is not known.",
                remedy=f"grant pg_monitor to {identifier(server.user)};",
            )
        return ok("held_snapshot", "No transaction keeps old rows from being removed.")
    return Finding(
        "held_snapshot",
        most(*(level for level, _ in bad)),
        "A transaction that is open for long keeps old rows from being removed.",
        lines([_session(each) for _, each in bad]),
        "End it where it was begun, or:\n"
        + lines([f"select pg_terminate_backend({each.name});" for _, each in bad])
        + "\nAgainst the next one: set idle_in_transaction_session_timeout for its role.",
    )


def snapshot_level(case: Case, session: Holder) -> Level:
    idle = (session.state or "").startswith("idle in transaction")
    by_time = level_of(session.seconds or 0, *(case.limits.idle_snapshot if idle else case.limits.busy_snapshot))
    return most(by_time, level_of(session.transactions, *case.limits.held_transactions))


def _session(each: Holder) -> str:
    who = [f"process {each.name}", f"user {each.user}"]
    who += [f"application {each.application}"] if each.application else []
    who += [f"from {each.client}"] if each.client else []
    long = f"open for {span(each.seconds or 0)}"
    what = f"last statement: {beginning(each.query)}" if each.query else "no statement is shown"
    return ", ".join([*who, each.state or "", long, _held(each), what])


def _held(each: Holder) -> str:
    return f"{several(each.transactions, 'transaction')} held back"


def _prepared(case: Case, prepared: Sequence[Holder]) -> Finding:
    bad = [
        (level, each)
        for each in prepared
        if (
            level := most(
                level_of(each.seconds or 0, *case.limits.prepared),
                level_of(each.transactions, *case.limits.held_transactions),
            )
        )
        is not Level.OK
    ]
    if not bad:
        return ok("prepared_transaction", "No prepared transaction was forgotten.")
    return Finding(
        "prepared_transaction",
        most(*(level for level, _ in bad)),
        "A prepared transaction was neither committed nor rolled back: it keeps old rows and its locks.",
        lines(
            [
                f"{each.name}, owner {each.user}, prepared {span(each.seconds or 0)} ago, {_held(each)}"
                for _, each in bad
            ]
        ),
        "Ask whoever prepared it which way it has to end:\n"
        + lines([f"commit prepared {literal(each.name)}; -- or: rollback prepared …" for _, each in bad]),
    )


def _slots(case: Case, slots: Sequence[Holder]) -> Finding:
    bad = [
        (level, each)
        for each in slots
        if (level := level_of(each.transactions, *case.limits.held_transactions)) is not Level.OK
    ]
    if not bad:
        return ok("replication_slot", "No replication slot keeps old rows from being removed.")
    return Finding(
        "replication_slot",
        most(*(level for level, _ in bad)),
        "A replication slot keeps old rows from being removed.",
        lines([f"slot {each.name} ({each.application}), {each.state}{_since(each)}, {_held(each)}" for _, each in bad]),
        "Bring its standby back and look for long queries there; if it is not needed any more:\n"
        + lines([f"select pg_drop_replication_slot({literal(each.name)});" for _, each in bad]),
    )


def _since(each: Holder) -> str:
    return "" if each.seconds is None else f" for {span(each.seconds)}"


def _standbys(case: Case, standbys: Sequence[Holder]) -> Finding:
    bad = [
        (level, each)
        for each in standbys
        if (level := level_of(each.transactions, *case.limits.held_transactions)) is not Level.OK
    ]
    if not bad:
        return ok("standby_feedback", "No standby keeps old rows from being removed.")
    return Finding(
        "standby_feedback",
        most(*(level for level, _ in bad)),
        "A standby with hot_standby_feedback keeps old rows from being removed: a long query runs there.",
        lines([f"standby {each.application or each.name}, from {each.client}, {_held(each)}" for _, each in bad]),
        "On the standby, find and end it:\n"
        "select pid, usename, xact_start, query from pg_stat_activity "
        "where backend_xmin is not null order by age(backend_xmin) desc;\n"
        "Against the next one: hot_standby_feedback = off there, or max_standby_streaming_delay.",
    )


def _elsewhere(case: Case, others: Sequence[Holder]) -> Finding:
    bad = [each for each in others if (each.seconds or 0) >= case.limits.idle_snapshot[1]]
    if not bad:
        return ok("open_elsewhere", "No transaction of another database is open for long.")
    return Finding(
        "open_elsewhere",
        Level.NOTE,
        "A transaction that writes in another database is open for long: app.events() waits for it.",
        lines([_session(each) if each.kind == "session" else f"prepared transaction {each.name}" for each in bad]),
        "End it where it was begun; jobs are not delayed by it.",
    )


def judge_slots(case: Case, slots: Sequence[Slot]) -> list[Finding]:
    levels = {
        each.name: most(
            level_of(0 if each.active else each.bytes or 0, *case.limits.slot_bytes),
            Level.WARNING if each.status in ("unreserved", "lost") else Level.OK,
        )
        for each in slots
    }
    bad = [each for each in slots if levels[each.name] is not Level.OK]
    if not bad:
        return [ok("slot_log", "No replication slot fills the disk.")]
    return [
        Finding(
            "slot_log",
            most(*(levels[each.name] for each in bad)),
            "A replication slot that nobody reads keeps the write-ahead log: the disk fills up.",
            lines(
                [
                    f"slot {each.name} ({each.kind}), {'active' if each.active else 'used by nobody'}, "
                    f"{amount(each.bytes or 0)} kept, {each.status}"
                    for each in bad
                ]
            ),
            "Bring its reader back; if it is not needed any more:\n"
            + lines([f"select pg_drop_replication_slot({literal(each.name)});" for each in bad]),
        )
    ]
