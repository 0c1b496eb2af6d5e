"""Generates docs/benchmarks.md and its plots from docs/benchmarks.json: python -m benchmarks.peers.report"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers import tables
from benchmarks.peers.summary import BY_KEY, Summary
from benchmarks.peers.targets import targets
from benchmarks.peers.wins import ahead, wins

DOCS = Path(__file__).parents[2] / "docs"
# The figures that the introduction mentions.
SUMMARIZED = [
    *("drain", "types_10_1", "types_1_8", "types_10_8", "growing_last", "bulk", "single_1", "single_48"),
    *("pickup_p50", "pickup_p99", "trickle_cpu", "trickle_p50", "trickle_p99", "idle_cpu"),
    *("busy_p50", "busy_p99", "payloads", "kill", "wal"),
]


def write(output: Path) -> None:
    from benchmarks.peers import plots  # needs matplotlib, of the group "bench"

    summary = Summary(json.loads((output / "benchmarks.json").read_text()))
    made = plots.draw(summary, output / "benchmarks")
    (output / "benchmarks.md").write_text(page(summary, made))


def page(summary: Summary, made: list[str]) -> str:
    def plot(name: str, says: str) -> str:
        return f"![{says}](benchmarks/{name}.svg)\n\n" if name in made else ""

    on_postgres = [peer for peer in summary.peers if summary.on(peer, "postgresql")]
    speed = ["drain", "waiting", "sustained", "bulk", "single_1", "single_48"]
    pickup, busy = ["pickup_p50", "pickup_p95", "pickup_p99"], ["busy_p50", "busy_p95", "busy_p99"]
    return f"""# Benchmarks

This page compares Treadle with other job queues on the same server, with the same jobs, in one run. Every queue is used
through its public interface and with its best documented settings. `make bench-peers` produces the figures from a clone
in at most an hour, and another one and a half for jobs one at a time, idle workers and the runs of five minutes; this
page and its plots are generated from [benchmarks.json](benchmarks.json) alone.
[Decision 20](decisions/0020-peer-benchmarks.md) explains the method.

{_circumstances(summary)}

Figures are medians, with the minimum and maximum of the interleaved rounds in parentheses. A figure without a range
comes from one round, or from all rounds together, like the percentiles of an idle worker. *Bare SQL* is not a queue but
a baseline: a psycopg loop that claims 1,000 rows of a plain table and marks them done.

{_summary(summary)}
## Targets

{targets(summary)}
## Throughput

Jobs per second. A drain is measured from the first job until the queue's own tables contain no more work. The tables
are checked every 50 ms, or as often as a query on a large table allows; a queue that is still writing outcomes at one
check is measured up to the next.

{plot("drain", "Drain of no-op jobs and of jobs that wait 5 ms, jobs per second")}{
        tables.figures(summary, speed[:3], "drain")
    }
{_types(summary, plot)}{_growing(summary, plot)}## Enqueueing

Jobs per second. A single enqueue is one call for one job, durable when it returns (on Redis: in the append-only file,
which is synced every second). The first second, on new connections, is not counted.

{plot("enqueue", "Bulk enqueue, and single enqueue from 48 connections, jobs per second")}{
        tables.figures(summary, speed[3:], "bulk")
    }
## Pick-up latency

Milliseconds from just before the enqueue call to the first line of the handler. Idle means 30 jobs per second; the
first jobs of a round, on new connections, are not counted.

{plot("latency", "Pick-up latency of an idle worker, p50 and p99, milliseconds")}{
        tables.figures(summary, pickup, "pickup_p50")
    }
Half load is half of the drain rate, or half of the single enqueue rate of 48 connections, whichever is less.
{_loads(summary)}

{tables.figures(summary, busy, "busy_p50")}
{_payloads(summary)}{_trickle(summary, plot)}{_idle(summary)}## Throughput with an open snapshot

Ten consecutive drains while another connection keeps a transaction open, so that dead rows cannot be removed. Queues
that drain 10,000 jobs per second get 50,000 jobs per drain, the others fewer, and five drains. For comparison, drains
in a database without an open transaction.

{plot("held", "The rate of ten consecutive drains with an open snapshot, relative to the first")}{tables.held(summary)}
## Throughput with many finished jobs in the table

{tables.history(summary)}
## Recovery after kill -9

A worker that runs two jobs is killed together with all of its child processes, as if its machine were lost. Another
worker is running. Queues that detect a lost worker by heartbeats are configured to do so within 10 seconds or less,
like Treadle's lease. Where a timeout decides that must be longer than the longest job, it has its default value.

{tables.kill(summary)}
## Cost of a job

On the server, from enqueue to completion, by the server's own counters: bytes of WAL, transactions, row versions
written, and dead row versions. The second table is the memory of a worker process after the drain.

{plot("wal", "Bytes of WAL per job, from enqueue to completion")}{
        tables.figures(summary, ["wal", "transactions", "versions", "dead"], "wal", on_postgres)
    }
{tables.figures(summary, ["memory"], "memory")}
## Where other queues are ahead

{wins(summary)}
## Versions and settings

{tables.settings(summary)}{_failures(summary)}"""


def _circumstances(summary: Summary) -> str:
    raw = summary.raw
    machine, postgres, redis = raw["machine"], raw["postgresql"], raw["redis"]
    other = f"Redis {redis['version']}, append-only file on" if "version" in redis else "no Redis"
    trial = "**A quick trial, not a result.** " if raw.get("quick") else ""
    took = f" The run took {raw['minutes']:.0f} minutes." if raw.get("minutes") else ""
    node = f", Node {machine['node']}" if machine.get("node") else ""
    return (
        f"{trial}{raw['date']}; {machine['cores']} cores ({machine['architecture']}, {machine['processor']}), "
        f"{machine['memory_gb']} GB, {machine['system']}; PostgreSQL {postgres['version']} with default settings "
        f"except max_connections {postgres['settings']['max_connections']}, fsync on; {other}; "
        f"Python {machine['python']}{node}. Servers, producers and workers share the cores.{took}"
    )


def _types(summary: Summary, plot: Callable[[str, str], str]) -> str:
    if not summary.values("types_1_1"):
        return ""
    keys = ["types_1_1", "types_10_1", "types_1_8", "types_10_8"]
    return f"""## Job types and processes

Drains of no-op jobs of one type and of ten, in turn 200 of each, by one worker process and by eight: jobs per second,
and in parentheses the ratio to Treadle, as the median of the rounds. All processes begin at the same moment: they are
started first, and suspended while the jobs are enqueued. {_eight(summary)}

{plot("types", "Drain of ten job types by one process and by eight, jobs per second")}{
        tables.figures(summary, keys, "types_10_8", ratios=True)
    }
"""


def _growing(summary: Summary, plot: Callable[[str, str], str]) -> str:
    if not summary.values("growing_last"):
        return ""
    return f"""## Five minutes of work

Jobs that ran per second, and in parentheses the ratio to Treadle, while a producer enqueues in bulk so that there is
always a backlog. Finished jobs stay in the table if the queue keeps them. Only for queues on PostgreSQL: those on Redis
delete finished jobs here.

{plot("growing", "Jobs per second over five minutes, while the number of finished jobs grows")}{tables.growing(summary)}
"""


def _payloads(summary: Summary) -> str:
    if not summary.values("payloads"):
        return ""
    keys = ["payloads", "payloads_alone", "payloads_p99"]
    return f"""### Beside large payloads

At 100 small jobs per second, alone, and while 20 jobs per second with 200 kB of payload each pass through the same
workers.

{tables.figures(summary, keys, "payloads")}
"""


def _trickle(summary: Summary, plot: Callable[[str, str], str]) -> str:
    if not summary.values("trickle_cpu"):
        return ""
    cpu = ["trickle_cpu", "trickle_server", "trickle_worker", "trickle_producer"]
    return f"""## One job at a time

At 100 jobs per second, from one producer that makes one call after the other, to one worker process: milliseconds of
CPU (user and system) per job, and pick-up latency. Each queue has a server of its own here. All of its processes are
counted, including background processes and sessions that have ended; for the worker, all processes that it started.
Start-up and the first second are not counted.

{plot("trickle", "CPU per job at 100 jobs per second, and pick-up latency, p99, milliseconds")}{
        tables.figures(summary, cpu, "trickle_cpu")
    }
{tables.figures(summary, ["trickle_p50", "trickle_p99"], "trickle_p50")}
"""


def _idle(summary: Summary) -> str:
    rounds = [one for peer in summary.peers for one in summary.rounds(peer, "idle")]
    if not rounds:
        return ""
    settle, window = rounds[0]["settle"], rounds[0]["window"]
    return f"""## An idle worker

One worker process that ran a few jobs and then had none, measured for {window:.0f} s after {settle:.0f} s without work.
CPU is a share of one core, counted like above. Statements are those that the worker sends, including BEGIN and COMMIT
(on Redis: commands). WAL is that of the whole server. Each queue has a server of its own, which is also measured
without a worker.

{tables.idle(summary)}
"""


def _summary(summary: Summary) -> str:
    """A few sentences that say where Treadle stands, from the figures alone."""
    ranked = [key for key in SUMMARIZED if "treadle" in summary.values(key)]
    others = {key: _ahead_on_postgres(summary, key) for key in ranked}
    first = [BY_KEY[key].title for key in ranked if not others[key]]
    behind = [f"{BY_KEY[key].title} ({', '.join(names)})" for key, names in others.items() if names]
    lines = []
    if first:
        lines.append(
            f"Of the queues on PostgreSQL, Treadle is first, or within 3 % of the first, in: {'; '.join(first)}.\n"
        )
    if behind:
        lines.append(f"It is not first in: {'; '.join(behind)}.\n")
    return "\n".join(lines)


def _ahead_on_postgres(summary: Summary, key: str) -> list[str]:
    """Only queues on PostgreSQL: those on Redis keep their jobs in memory, and the section on wins lists them too."""
    return [summary.shown(peer) for peer, _, _ in ahead(summary, BY_KEY[key]) if summary.on(peer, "postgresql")]


def _eight(summary: Summary) -> str:
    own = [
        f"{summary.shown(peer)}: {how}" for peer in summary.peers if (how := summary.about(peer).get("eight_processes"))
    ]
    return f"Eight processes are eight programs, except {'; '.join(own)}." if own else ""


def _loads(summary: Summary) -> str:
    rates = [
        f"{summary.shown(peer)} {rounds[0]['rate']:,.0f}"
        for peer in summary.peers
        if (rounds := summary.rounds(peer, "busy"))
    ]
    return f"Its rate in jobs per second: {', '.join(rates)}." if rates else ""


def _failures(summary: Summary) -> str:
    failures = summary.failures()
    if not failures:
        return ""
    rows = [[summary.shown(peer), what, why.replace("|", "/").replace("\n", " ")] for peer, what, why in failures]
    return "\n## What could not be measured\n\n" + tables.table(["", "measurement", "reason"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=DOCS)
    write(parser.parse_args().output)
