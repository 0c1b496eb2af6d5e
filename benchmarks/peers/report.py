"""docs/benchmarks.md and its plots, wholly from docs/benchmarks.json: python -m benchmarks.peers.report"""

import argparse
import json
from pathlib import Path

from benchmarks.peers import tables
from benchmarks.peers.summary import Summary
from benchmarks.peers.wins import wins

DOCS = Path(__file__).parents[2] / "docs"


def write(output: Path) -> None:
    from benchmarks.peers import plots  # matplotlib: of the group "bench", and not needed to read the figures

    summary = Summary(json.loads((output / "benchmarks.json").read_text()))
    made = plots.draw(summary, output / "benchmarks")
    (output / "benchmarks.md").write_text(page(summary, made))


def page(summary: Summary, made: list[str]) -> str:
    def plot(name: str, says: str) -> str:
        return f"![{says}](benchmarks/{name}.svg)\n\n" if name in made else ""

    on_postgres = [peer for peer in summary.peers if summary.on(peer, "postgresql")]
    speed = ["drain", "waiting", "sustained", "bulk", "single_1", "single_48"]
    idle, busy = ["idle_p50", "idle_p95", "idle_p99"], ["busy_p50", "busy_p95", "busy_p99"]
    return f"""# Benchmarks

Treadle and its peers, each through its own public interface and with its own best documented settings: the same jobs,
the same server, one run. Made by `make bench-peers` from a clone, in an hour at most; this page and its plots are made
of [benchmarks.json](benchmarks.json) and of nothing else. How and why so: [decision 20](decisions/0020-peers.md).

{_circumstances(summary)}

Medians, with the least and the most of the interleaved rounds in brackets; a figure without has one round, or is of
all rounds together, as the percentiles of an idle worker are. *Bare SQL* is no queue: a psycopg loop that
claims 1,000 rows of a plain table and marks them done, as a measure of what the rest costs.

## Throughput

Jobs per second. A drain counts from the first job until the peer's own tables say that nothing is left, to
within 50 ms, or what a look at a large table takes; who is still writing ends at the first look pays that.

{plot("drain", "Drain of no-op jobs and of jobs that wait 5 ms, jobs per second")}{
        tables.figures(summary, speed[:3], "drain")
    }
## Enqueueing

Jobs per second. A single enqueue is one call for one job, durable when it returns (on Redis: in its append-only file,
which it writes out once a second). The first second, over new connections, does not count.

{plot("enqueue", "Bulk enqueue, and single enqueue from 48 connections, jobs per second")}{
        tables.figures(summary, speed[3:], "bulk")
    }
## Pick-up

Milliseconds from just before the call that enqueues to the first line of the handler. Idle: 30 jobs a second;
the first ones of a round, over new connections, do not count.

{plot("latency", "Pick-up latency of an idle worker, p50 and p99, milliseconds")}{
        tables.figures(summary, idle, "idle_p50")
    }
At half load: half of the rate at which it drains, or half of what 48 connections enqueue one by one, if that is less.
{_loads(summary)}

{tables.figures(summary, busy, "busy_p50")}
## While somebody holds a snapshot

Ten drains in a row, while one other connection keeps a transaction open: rows that are dead cannot be removed. Of
50,000 jobs each for whoever drains 10,000 a second, of fewer for the others. Beside them, drains in a database where
nobody does that.

{plot("held", "The rate of ten drains in a row under a held snapshot, to that of the first")}{tables.held(summary)}
## With many finished jobs in the table

{tables.history(summary)}
## After a kill -9

A worker that runs two jobs is killed with all that it started, as if its machine were gone. Another one stands by.
Whoever knows a lost worker by its heartbeats has them set so that 10 seconds of silence are enough, or less, as with
Treadle's lease; where a time limit decides that must be longer than the longest job, it is the default.

{tables.kill(summary)}
## What a job costs

On the server, from enqueue to its end, by the server's own counters: bytes of WAL, transactions, versions of rows
written, and versions that died. And the memory of a worker process after the drain.

{plot("wal", "Bytes of WAL for each job, from enqueue to its end")}{
        tables.figures(summary, ["wal", "transactions", "versions", "dead"], "wal", on_postgres)
    }
{tables.figures(summary, ["memory"], "memory")}
## Where a peer wins

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
        f"{machine['memory_gb']} GB, {machine['system']}; PostgreSQL {postgres['version']}, its defaults but for "
        f"max_connections {postgres['settings']['max_connections']}, fsync on; {other}; "
        f"Python {machine['python']}{node}. Servers, producers and workers share the cores.{took}"
    )


def _loads(summary: Summary) -> str:
    rates = [
        f"{summary.shown(peer)} {rounds[0]['rate']:,.0f}"
        for peer in summary.peers
        if (rounds := summary.rounds(peer, "busy"))
    ]
    return f"Jobs per second that it was: {', '.join(rates)}." if rates else ""


def _failures(summary: Summary) -> str:
    failures = summary.failures()
    if not failures:
        return ""
    rows = [[summary.shown(peer), what, why.replace("|", "/").replace("\n", " ")] for peer, what, why in failures]
    return "\n## What could not be measured\n\n" + tables.table(["", "what", "why"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=DOCS)
    write(parser.parse_args().output)
