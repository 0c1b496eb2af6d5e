"""The server: what it is, how it is set, and how much room is left."""

from collections.abc import Sequence

from treadle.doctor.facts import Age, Clocks, Room, Server
from treadle.doctor.finding import Case, Finding, Level, level_of, ok
from treadle.doctor.telling import identifier, lines
from treadle.words.phrases import span

OLDEST, NEWEST = 14, 18
# What is left when PostgreSQL refuses to begin another transaction is three million of these.
WRAPAROUND = 2_147_483_648
# Where PostgreSQL itself drops everything else to freeze (vacuum_failsafe_age).
FAILSAFE = 1_600_000_000


def judge_server(case: Case, server: Server) -> list[Finding]:
    return [
        _version(server),
        _writable(server),
        _durability(server),
        _timeouts(case, server),
        _notifications(case, server),
    ]


def _version(server: Server) -> Finding:
    major = server.version // 10_000
    if OLDEST <= major <= NEWEST:
        return ok("version", f"PostgreSQL {major} is supported.")
    return Finding(
        "version",
        Level.NOTE if major > NEWEST else Level.CRITICAL,
        f"PostgreSQL {major} is outside of what Treadle is tested with: {OLDEST} to {NEWEST}.",
        remedy="Upgrade the treadle package." if major > NEWEST else f"Upgrade PostgreSQL to {OLDEST} or newer.",
    )


def _writable(server: Server) -> Finding:
    if server.recovering:
        return Finding(
            "writable",
            Level.CRITICAL,
            "This server is a standby: nothing can be enqueued, claimed or completed here.",
            remedy="Use the primary's URL; with several hosts in it: target_session_attrs=read-write.",
        )
    if server.settings.get("default_transaction_read_only") == "on":
        return Finding(
            "writable",
            Level.CRITICAL,
            "New transactions can only read: nothing can be enqueued, claimed or completed.",
            "default_transaction_read_only is on.",
            f"alter role {identifier(server.user)} set default_transaction_read_only = off;",
        )
    return ok("writable", "The server can be written to.")


def _durability(server: Server) -> Finding:
    means = {
        "fsync": "a crash of the machine can destroy the database",
        "full_page_writes": "a crash of the machine can damage pages",
        "synchronous_commit": "a crash of the server forgets the jobs of the last moments, and that jobs were done",
    }
    off = [name for name in means if server.settings.get(name) == "off"]
    if not off:
        return ok("durability", "What is committed outlives a crash.")
    return Finding(
        "durability",
        Level.NOTE,
        "The server is set to forget or lose something in a crash.",
        lines([f"{name} is off: {means[name]}" for name in off]),
        "\n".join(f"alter system set {name} = on;" for name in off) + "\nselect pg_reload_conf();",
    )


def _timeouts(case: Case, server: Server) -> Finding:
    limits = case.limits
    bites = {
        "statement_timeout": (limits.short_timeout, "cuts off claims and upkeep when the server is busy"),
        "lock_timeout": (limits.short_timeout, "cuts off outcomes that wait for a row"),
        "transaction_timeout": (limits.short_idle, "ends transactions of handlers (job.transaction) and connections"),
        "idle_in_transaction_session_timeout": (
            limits.short_idle,
            "ends connections of handlers that think inside of a transaction (job.transaction)",
        ),
        "idle_session_timeout": (float("inf"), "ends the connections on which workers listen"),
    }
    short = {
        name: seconds
        for name, (limit, _) in bites.items()
        if 0 < (seconds := int(server.settings.get(name) or 0) / 1000) < limit
    }
    if not short:
        return ok("timeouts", "No timeout gets in the way of workers.")
    return Finding(
        "timeouts",
        Level.NOTE,
        "A timeout of this role gets in the way of workers.",
        lines([f"{name} is {span(seconds)}: it {bites[name][1]}" for name, seconds in short.items()]),
        "\n".join(f"alter role {identifier(server.user)} set {name} = 0;" for name in short),
    )


def _notifications(case: Case, server: Server) -> Finding:
    level = level_of(server.notifications, *case.limits.notifications)
    if level is Level.OK:
        return ok("notification_queue", "The queue of notifications has room.")
    return Finding(
        "notification_queue",
        level,
        f"The queue of notifications is {server.notifications:.0%} full; when it is full, enqueueing fails.",
        "A connection that listens has had a transaction open for long.",
        "select pid, xact_start, query from pg_stat_activity "
        "where state like 'idle in transaction%' order by xact_start;\n"
        "then end the oldest: select pg_terminate_backend(pid);",
    )


def judge_connections(case: Case, rooms: Sequence[Room]) -> list[Finding]:
    def share(room: Room) -> float:
        return room.used / room.allowed if room.allowed > 0 else 1

    fullest = max(rooms, key=share)
    level = level_of(share(fullest), *case.limits.connections)
    if level is Level.OK:
        return [ok("connections", f"{fullest.used:,} of {fullest.allowed:,} connections are in use.")]
    return [
        Finding(
            "connections",
            level,
            "Connections are running out.",
            lines(
                [
                    f"{room.what}: {room.used:,} of {room.allowed:,}, {room.ours:,} of them Treadle's"
                    for room in sorted(rooms, key=share, reverse=True)
                ]
            ),
            "See who has them: select usename, application_name, state, count(*) "
            "from pg_stat_activity group by 1, 2, 3 order by 4 desc;\n"
            "Then smaller pools, a pooler in front of the application, or a higher max_connections. "
            "A worker process keeps four.",
        )
    ]


def judge_ages(case: Case, server: Server, ages: Sequence[Age]) -> list[Finding]:
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


def _age(server: Server, name: str, noun: str, setting: str, ages: Sequence[Age], numbers: Sequence[int]) -> Finding:
    allowed = int(server.settings.get(setting) or 200_000_000)
    # Autovacuum begins at the setting; half as much again means that it does not get to the end.
    warning = min(allowed * 1.5, FAILSAFE)
    level = level_of(max(numbers, default=0), warning, warning, FAILSAFE)
    if level is Level.OK:
        return ok(name, f"The {noun} numbers are far from used up.")
    bad = [(each.database, number) for each, number in zip(ages, numbers, strict=True) if number >= warning]
    return Finding(
        name,
        level,
        f"Vacuum does not keep up with the {noun} numbers; when they are used up, nothing can be written any more.",
        lines(
            [f"database {base}: {number:,} of {WRAPAROUND:,}; autovacuum begins at {allowed:,}" for base, number in bad]
        ),
        "First end what holds old rows back (see the other findings). Then, in each of these databases: vacuum freeze;",
    )


def judge_clocks(case: Case, clocks: Clocks) -> list[Finding]:
    # What the way there and back may have added is no difference.
    certain = max(0.0, abs(clocks.difference) - clocks.doubt)
    level = level_of(certain, *case.limits.clock)
    if level is Level.OK:
        return [ok("clock", "The clocks of this machine and the server agree.")]
    side = "ahead of" if clocks.difference > 0 else "behind"
    return [
        Finding(
            "clock",
            level,
            f"The server's clock is {span(abs(clocks.difference))} {side} this machine's.",
            f"Measured to {clocks.doubt:.3f} seconds. The queue goes by the server's clock alone; a time that an "
            "application works out by its own (run_at) comes too early or too late by as much.",
            "Set the clock of the machine that is wrong: chronyc tracking, or timedatectl.",
        )
    ]


def judge_hearing(case: Case, hears: bool | None) -> list[Finding]:
    if hears is None:
        return [ok("listen", "Whether notifications arrive was not tried: the connections are the caller's.")]
    if hears:
        return [ok("listen", "Notifications arrive.")]
    return [
        Finding(
            "listen",
            Level.WARNING,
            "A notification was sent and did not arrive: a pooler that swallows LISTEN stands between.",
            "Workers find their jobs by looking once a second, and handle.result() by polling: up to a second later.",
            "Give workers a URL that leads to PostgreSQL itself, or to a pool in session mode "
            "(PgBouncer: pool_mode = session). To live with it: treadle worker --no-listen --poll 0.2s",
        )
    ]
