"""What keeps vacuum from removing dead rows. Meanwhile every claim of a busy queue has to skip more of them."""

from collections.abc import Sequence

from treadle.doctor.facts import ReplicationSlot, Server, VacuumBlocker
from treadle.doctor.finding import Context, Finding, Severity, highest, ok, severity_of
from treadle.doctor.text import abbreviated, identifier, lines, literal, plural, size
from treadle.words.formatting import span


def check_horizon(context: Context, server: Server, blockers: Sequence[VacuumBlocker]) -> list[Finding]:
    here = [each for each in blockers if each.here]
    return [
        _sessions(context, server, [each for each in here if each.kind == "session"]),
        _prepared(context, [each for each in here if each.kind == "prepared"]),
        _slots(context, [each for each in here if each.kind == "slot"]),
        _standbys(context, [each for each in here if each.kind == "standby"]),
        _elsewhere(context, [each for each in blockers if not each.here]),
    ]


def _sessions(context: Context, server: Server, sessions: Sequence[VacuumBlocker]) -> Finding:
    bad = [(severity, each) for each in sessions if (severity := session_severity(context, each)) is not Severity.OK]
    if not bad:
        if not server.sees_all:
            return Finding(
                "held_snapshot",
                Severity.NOTE,
                "This role sees only its own connections, so long transactions of other roles cannot be found.",
                remedy=f"grant pg_monitor to {identifier(server.user)};",
            )
        return ok("held_snapshot", "No long transaction keeps vacuum from removing dead rows.")
    return Finding(
        "held_snapshot",
        highest(*(severity for severity, _ in bad)),
        "A long transaction keeps vacuum from removing dead rows, and claims get slower.",
        lines([_session(each) for _, each in bad]),
        "Commit or roll it back in the client, or terminate it:\n"
        + lines([f"select pg_terminate_backend({each.name});" for _, each in bad])
        + "\nTo prevent it: set idle_in_transaction_session_timeout for the role.",
    )


def session_severity(context: Context, session: VacuumBlocker) -> Severity:
    idle = (session.state or "").startswith("idle in transaction")
    limits = context.limits
    by_time = severity_of(session.seconds or 0, *(limits.idle_snapshot if idle else limits.busy_snapshot))
    return highest(by_time, severity_of(session.transactions, *limits.held_transactions))


def _session(each: VacuumBlocker) -> str:
    parts = [f"process {each.name}", f"user {each.user}"]
    parts += [f"application {each.application}"] if each.application else []
    parts += [f"from {each.client}"] if each.client else []
    age = f"open for {span(each.seconds or 0)}"
    statement = f"last statement: {abbreviated(each.query)}" if each.query else "statement not visible"
    return ", ".join([*parts, each.state or "", age, _begun_since(each), statement])


def _begun_since(each: VacuumBlocker) -> str:
    return f"{plural(each.transactions, 'transaction')} begun since"


def _prepared(context: Context, prepared: Sequence[VacuumBlocker]) -> Finding:
    bad = [
        (severity, each)
        for each in prepared
        if (
            severity := highest(
                severity_of(each.seconds or 0, *context.limits.prepared),
                severity_of(each.transactions, *context.limits.held_transactions),
            )
        )
        is not Severity.OK
    ]
    if not bad:
        return ok("prepared_transaction", "No prepared transaction has been left open.")
    return Finding(
        "prepared_transaction",
        highest(*(severity for severity, _ in bad)),
        "A prepared transaction is neither committed nor rolled back. It keeps its locks, and vacuum from removing "
        "dead rows.",
        lines(
            [
                f"{each.name}, owner {each.user}, prepared {span(each.seconds or 0)} ago, {_begun_since(each)}"
                for _, each in bad
            ]
        ),
        "Ask its owner whether to commit it or to roll it back:\n"
        + lines([f"commit prepared {literal(each.name)}; -- or: rollback prepared …" for _, each in bad]),
    )


def _slots(context: Context, slots: Sequence[VacuumBlocker]) -> Finding:
    bad = _holding_back(context, slots)
    if not bad:
        return ok("replication_slot", "No replication slot keeps vacuum from removing dead rows.")
    return Finding(
        "replication_slot",
        highest(*(severity for severity, _ in bad)),
        "A replication slot keeps vacuum from removing dead rows.",
        lines(
            [
                f"slot {each.name} ({each.application}), {each.state}{_for(each)}, {_begun_since(each)}"
                for _, each in bad
            ]
        ),
        "Reconnect its standby and look for long queries there. If the slot is no longer needed:\n"
        + lines([f"select pg_drop_replication_slot({literal(each.name)});" for _, each in bad]),
    )


def _holding_back(context: Context, blockers: Sequence[VacuumBlocker]) -> list[tuple[Severity, VacuumBlocker]]:
    """Those behind which many transactions have begun."""
    return [
        (severity, each)
        for each in blockers
        if (severity := severity_of(each.transactions, *context.limits.held_transactions)) is not Severity.OK
    ]


def _for(each: VacuumBlocker) -> str:
    return "" if each.seconds is None else f" for {span(each.seconds)}"


def _standbys(context: Context, standbys: Sequence[VacuumBlocker]) -> Finding:
    bad = _holding_back(context, standbys)
    if not bad:
        return ok("standby_feedback", "No standby keeps vacuum from removing dead rows.")
    return Finding(
        "standby_feedback",
        highest(*(severity for severity, _ in bad)),
        "A long query on a standby with hot_standby_feedback keeps vacuum from removing dead rows.",
        lines(
            [f"standby {each.application or each.name}, from {each.client}, {_begun_since(each)}" for _, each in bad]
        ),
        "Find the query on the standby and terminate it:\n"
        "select pid, usename, xact_start, query from pg_stat_activity "
        "where backend_xmin is not null order by age(backend_xmin) desc;\n"
        "To prevent it: set hot_standby_feedback = off or max_standby_streaming_delay there.",
    )


def _elsewhere(context: Context, others: Sequence[VacuumBlocker]) -> Finding:
    bad = [each for each in others if (each.seconds or 0) >= context.limits.idle_snapshot[1]]
    if not bad:
        return ok("open_elsewhere", "No long transaction is open in another database.")
    return Finding(
        "open_elsewhere",
        Severity.NOTE,
        "A long transaction that writes in another database delays app.events().",
        lines([_session(each) if each.kind == "session" else f"prepared transaction {each.name}" for each in bad]),
        "Commit or roll it back in its client. Jobs are not delayed.",
    )


def check_slots(context: Context, slots: Sequence[ReplicationSlot]) -> list[Finding]:
    severities = {
        each.name: highest(
            severity_of(0 if each.active else each.bytes or 0, *context.limits.slot_bytes),
            Severity.WARNING if each.status in ("unreserved", "lost") else Severity.OK,
        )
        for each in slots
    }
    bad = [each for each in slots if severities[each.name] is not Severity.OK]
    if not bad:
        return [ok("slot_log", "No replication slot retains much write-ahead log.")]
    return [
        Finding(
            "slot_log",
            highest(*(severities[each.name] for each in bad)),
            "An inactive replication slot retains write-ahead log, and the disk fills up.",
            lines(
                [
                    f"slot {each.name} ({each.kind}), {'active' if each.active else 'inactive'}, "
                    f"{size(each.bytes or 0)} retained, {each.status}"
                    for each in bad
                ]
            ),
            "Reconnect its consumer. If the slot is no longer needed:\n"
            + lines([f"select pg_drop_replication_slot({literal(each.name)});" for each in bad]),
        )
    ]
