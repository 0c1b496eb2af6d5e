"""The server: its version, settings, connections, transaction ids and clock, and whether notifications arrive."""

from collections.abc import Sequence

from treadle.doctor.facts import ClockJump, ClockOffset, ConnectionUse, DatabaseAge, Server
from treadle.doctor.finding import Context, Finding, Severity, ok, severity_of
from treadle.doctor.text import identifier, lines, plural
from treadle.words.formatting import span
from treadle.words.refusal import Refusal

OLDEST, NEWEST = 14, 18
# PostgreSQL refuses to assign transaction ids when three million of these are left.
WRAPAROUND = 2_147_483_648
# From this age on vacuum does nothing but freeze (vacuum_failsafe_age).
FAILSAFE = 1_600_000_000


def check_server(context: Context, server: Server) -> list[Finding]:
    return [
        _version(server),
        _durability(server),
        _timeouts(context, server),
        _notifications(context, server),
    ]


def _version(server: Server) -> Finding:
    major = server.version // 10_000
    if OLDEST <= major <= NEWEST:
        return ok("version", f"PostgreSQL {major} is supported.")
    return Finding(
        "version",
        Severity.NOTE if major > NEWEST else Severity.CRITICAL,
        f"Treadle is not tested with PostgreSQL {major}, only with {OLDEST} to {NEWEST}.",
        remedy="Upgrade the treadle package." if major > NEWEST else f"Upgrade PostgreSQL to {OLDEST} or newer.",
    )


def check_writable(context: Context, server: Server, refusal: Refusal | None) -> list[Finding]:
    return [_writable(server, refusal)]


def _writable(server: Server, refusal: Refusal | None) -> Finding:
    if server.in_recovery:
        return Finding(
            "writable",
            Severity.CRITICAL,
            "This server is a standby: jobs cannot be enqueued, claimed or completed.",
            remedy="Use the URL of the primary. If the URL lists several hosts, add target_session_attrs=read-write.",
        )
    if refusal is not None:
        return Finding(
            "writable",
            Severity.CRITICAL,
            refusal.sentence,
            "It has refused what a worker writes within the last ten seconds: jobs are not claimed, and outcomes wait.",
            refusal.remedy,
        )
    if server.settings.get("default_transaction_read_only") == "on":
        return Finding(
            "writable",
            Severity.CRITICAL,
            "Transactions are read-only by default: jobs cannot be enqueued, claimed or completed.",
            "default_transaction_read_only is on.",
            f"alter role {identifier(server.user)} set default_transaction_read_only = off;",
        )
    return ok("writable", "The server accepts writes.")


def _durability(server: Server) -> Finding:
    consequences = {
        "fsync": "if the machine crashes, the database can be corrupted",
        "full_page_writes": "if the machine crashes, pages can be corrupted",
        "synchronous_commit": "if the server crashes, the last commits are lost: jobs enqueued, jobs completed",
    }
    off = [name for name in consequences if server.settings.get(name) == "off"]
    if not off:
        return ok("durability", "Committed transactions survive a crash.")
    return Finding(
        "durability",
        Severity.NOTE,
        "The server is configured to lose data in a crash.",
        lines([f"{name} is off: {consequences[name]}" for name in off]),
        "\n".join(f"alter system set {name} = on;" for name in off) + "\nselect pg_reload_conf();",
    )


def _timeouts(context: Context, server: Server) -> Finding:
    limits = context.limits
    effects = {
        "statement_timeout": (limits.short_timeout, "interrupts claims and maintenance when the server is busy"),
        "lock_timeout": (limits.short_timeout, "interrupts workers that wait for a row to record an outcome"),
        "transaction_timeout": (
            limits.short_idle,
            "terminates the transactions of handlers (job.transaction) and their connections",
        ),
        "idle_in_transaction_session_timeout": (
            limits.short_idle,
            "terminates the connections of handlers that compute inside a transaction (job.transaction)",
        ),
        "idle_session_timeout": (float("inf"), "terminates the connections on which workers listen"),
    }
    short = {
        name: seconds
        for name, (limit, _) in effects.items()
        if 0 < (seconds := int(server.settings.get(name) or 0) / 1000) < limit
    }
    if not short:
        return ok("timeouts", "No timeout interrupts workers.")
    return Finding(
        "timeouts",
        Severity.NOTE,
        "Timeouts of this role interrupt workers.",
        lines([f"{name} is {span(seconds)}: it {effects[name][1]}" for name, seconds in short.items()]),
        "\n".join(f"alter role {identifier(server.user)} set {name} = 0;" for name in short),
    )


def _notifications(context: Context, server: Server) -> Finding:
    severity = severity_of(server.notifications, *context.limits.notifications)
    if severity is Severity.OK:
        return ok("notification_queue", "The notification queue is nearly empty.")
    return Finding(
        "notification_queue",
        severity,
        f"The notification queue is {server.notifications:.0%} full.",
        "A listening connection has had a transaction open for a long time. From 90 % on, Treadle sends no "
        "notifications, and jobs start when a worker polls. When it is full, every NOTIFY of other applications fails.",
        "select pid, xact_start, query from pg_stat_activity "
        "where state like 'idle in transaction%' order by xact_start;\n"
        "then terminate the oldest: select pg_terminate_backend(pid);",
    )


def check_connections(context: Context, uses: Sequence[ConnectionUse]) -> list[Finding]:
    def share(use: ConnectionUse) -> float:
        return use.used / use.allowed if use.allowed > 0 else 1

    fullest = max(uses, key=share)
    severity = severity_of(share(fullest), *context.limits.connections)
    if severity is Severity.OK:
        return [ok("connections", f"{fullest.used:,} of {fullest.allowed:,} connections are in use.")]
    return [
        Finding(
            "connections",
            severity,
            f"{share(fullest):.0%} of the connections are in use.",
            lines(
                [
                    f"{use.scope}: {use.used:,} of {use.allowed:,} in use, {use.ours:,} by Treadle"
                    for use in sorted(uses, key=share, reverse=True)
                ]
            ),
            "To see which clients use them: select usename, application_name, state, count(*) "
            "from pg_stat_activity group by 1, 2, 3 order by 4 desc;\n"
            "Then use smaller pools, put a connection pooler in front of the application, or raise max_connections. "
            "A worker process uses four connections.",
        )
    ]


def check_ages(context: Context, server: Server, ages: Sequence[DatabaseAge]) -> list[Finding]:
    return [
        _age(
            server, "transaction_age", "transaction", "autovacuum_freeze_max_age", ages, [a.transactions for a in ages]
        ),
        _age(
            server,
            "multixact_age",
            "multixact",
            "autovacuum_multixact_freeze_max_age",
            ages,
            [a.multixacts for a in ages],
        ),
    ]


def _age(
    server: Server, name: str, noun: str, setting: str, ages: Sequence[DatabaseAge], numbers: Sequence[int]
) -> Finding:
    allowed = int(server.settings.get(setting) or 200_000_000)
    # Autovacuum starts to freeze at the setting; at 1.5 times the setting it is not keeping up.
    warning = min(allowed * 1.5, FAILSAFE)
    severity = severity_of(max(numbers, default=0), warning, warning, FAILSAFE)
    if severity is Severity.OK:
        return ok(name, f"{noun.capitalize()} ids are far from wraparound.")
    bad = [(each.database, number) for each, number in zip(ages, numbers, strict=True) if number >= warning]
    return Finding(
        name,
        severity,
        f"Vacuum does not freeze old {noun} ids fast enough. At wraparound the database stops accepting writes.",
        lines(
            [
                f"database {base}: {number:,} of {WRAPAROUND:,}; autovacuum freezes from {allowed:,}"
                for base, number in bad
            ]
        ),
        "First remove what blocks vacuum (see the other findings). Then, in each of these databases: vacuum freeze;",
    )


def check_clock(context: Context, offset: ClockOffset) -> list[Finding]:
    # The round trip may account for this much of the offset.
    certain = max(0.0, abs(offset.seconds) - offset.uncertainty)
    severity = severity_of(certain, *context.limits.clock)
    if severity is Severity.OK:
        return [ok("clock", "The clocks of this machine and the server agree.")]
    side = "ahead of" if offset.seconds > 0 else "behind"
    return [
        Finding(
            "clock",
            severity,
            f"The server's clock is {span(abs(offset.seconds))} {side} this machine's.",
            f"Measured to within {offset.uncertainty:.3f} s. The queue uses only the server's clock; a run_at that an "
            "application computes from its own clock is wrong by as much.",
            "Correct the clock that is wrong: chronyc tracking, or timedatectl.",
        )
    ]


def check_clock_jumps(context: Context, jumps: Sequence[ClockJump]) -> list[Finding]:
    if not jumps:
        return [ok("clock_jumps", "No jump of the server's clock was noticed lately.")]
    return [
        Finding(
            "clock_jumps",
            Severity.WARNING,
            f"The server's clock has jumped: {plural(len(jumps), 'time')} within {span(context.limits.clock_jump)}.",
            lines(
                [
                    f"set {'forward' if each.seconds > 0 else 'back'} by {span(abs(each.seconds))}: "
                    f"{each.after:%Y-%m-%d %H:%M:%S} instead of {each.before:%Y-%m-%d %H:%M:%S}"
                    for each in jumps
                ]
            )
            + "\nNo job was lost. Jobs with a run_at of their own, and charts, follow the new clock.",
            "Check what sets the clock: chronyc tracking, or timedatectl. After a failover or the resume of a virtual "
            "machine, compare the clocks of both servers.",
        )
    ]


def check_notifications(context: Context, arrived: bool | None) -> list[Finding]:
    if arrived is None:
        return [
            ok("listen", "Notifications were not tested: the connection belongs to the caller, or their queue is full.")
        ]
    if arrived:
        return [ok("listen", "Notifications arrive.")]
    return [
        Finding(
            "listen",
            Severity.WARNING,
            "A test notification did not arrive: a connection pooler without support for LISTEN is in between, or "
            "TREADLE_LISTEN_URL leads to another database.",
            "Workers and handle.result() poll every 0.5 s instead: jobs start, and results arrive, up to 0.5 s later.",
            "Set TREADLE_LISTEN_URL, or Treadle(connections=Connections(listen_url=…)), to a URL that connects to "
            "PostgreSQL directly, or to a pool in session mode (PgBouncer: pool_mode = session). Or: treadle worker "
            "--no-listen --poll 0.2s",
        )
    ]
