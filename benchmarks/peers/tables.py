"""Formats the summary as Markdown tables."""

from benchmarks.peers.figures import median
from benchmarks.peers.summary import BY_KEY, Summary

DIGITS = {"payloads": 1, "pickup": 1, "busy": 1, "trickle": 2, "idle_cpu": 2, "idle_statements": 1, "kill": 1}
DIGITS |= {"transactions": 2, "versions": 2, "dead": 2, "held": 2}


def digits(key: str) -> int:
    return DIGITS.get(key, DIGITS.get(key.split("_")[0], 0))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"


def figures(summary: Summary, keys: list[str], by: str, peers: list[str] | None = None, ratios: bool = False) -> str:
    """Return a table with a column per figure and a row per queue, the best queue first. With `ratios`, each figure has
    its ratio to Treadle's instead of its spread."""
    values = {key: summary.values(key) for key in keys}
    chosen = [peer for peer in peers or summary.peers if any(peer in values[key] for key in keys)]
    sign = -1 if BY_KEY[by].more_is_better else 1
    chosen.sort(key=lambda peer: sign * values[by][peer].middle if peer in values[by] else float("inf"))
    cell = _cell_with_ratio if ratios else _cell
    rows = [[_name(summary, peer), *(cell(summary, peer, key) for key in keys)] for peer in chosen]
    return table(["", *(BY_KEY[key].title + (f",{_unit(key)}" if _unit(key) else "") for key in keys)], rows)


def growing(summary: Summary) -> str:
    """Return a table of five minutes of work, the fastest queue at the end first."""
    rows = []
    for peer, last in summary.values("growing_last").items():
        first = summary.value(peer, "growing_first")
        assert first
        jobs = f"{summary.rounds(peer, 'growing')[0]['jobs']:,}"
        cells = [_cell_with_ratio(summary, peer, key) for key in ("growing_first", "growing_last")]
        rows.append((last.middle, [_name(summary, peer), *cells, f"{last.middle / first.middle:.2f}", jobs]))
    rows.sort(key=lambda row: -row[0])
    return table(["", "first minute", "last minute", "last / first", "jobs"], [cells for _, cells in rows])


def idle(summary: Summary) -> str:
    """Return a table of idle workers, the cheapest first, with what the server does without a worker."""
    rows = []
    for peer in summary.peers:
        for one in summary.rounds(peer, "idle"):
            alone, used = one["control"], one["cpu_percent"]
            shares = (used["all"], used["worker"], used["server"], alone["cpu_percent"]["server"])
            cells = [*(f"{share:.2f}" for share in shares), f"{one['statements_per_minute']:,.1f}"]
            cells += [f"{each['wal_per_hour']:,.0f}" if "wal_per_hour" in each else "-" for each in (one, alone)]
            rows.append((used["all"], [_name(summary, peer), *cells]))
    rows.sort(key=lambda row: row[0])
    head = ["", "CPU, %", "worker", "server", "server without a worker", "statements per minute", "WAL bytes per hour"]
    return table([*head, "WAL bytes per hour without a worker"], [cells for _, cells in rows])


def held(summary: Summary) -> str:
    rows = []
    for peer in summary.peers:
        for one in summary.rounds(peer, "held"):
            rates, free = one["held"], median(one["free"])
            cells = [f"{rate:,.0f}" for rate in (rates[0], rates[(len(rates) - 1) // 2], rates[-1], free)]
            share = rates[-1] / free
            rows.append((share, [_name(summary, peer), f"{len(rates)} of {one['jobs']:,}", *cells, f"{share:.2f}"]))
    rows.sort(key=lambda row: -row[0])
    head = ["", "drains of jobs", "first", "middle", "last", "without a snapshot", "last / without"]
    return table(head, [cells for _, cells in rows]) + _stopped(summary)


def _stopped(summary: Summary) -> str:
    lines = [
        f"- {summary.shown(peer)} stopped after {len(one['held'])} drains: {one['stopped']}.\n"
        for peer in summary.peers
        for one in summary.rounds(peer, "held")
        if "stopped" in one
    ]
    return "\n" + "".join(lines) if lines else ""


def history(summary: Summary) -> str:
    rows, finished = [], 0
    for peer, value in summary.values("history").items():
        finished = summary.rounds(peer, "history")[0]["finished"]
        own = summary.value(peer, "drain")
        ratio = f"{value.middle / own.middle:.2f}" if own else "-"
        rows.append((value.middle, [_name(summary, peer), own.text() if own else "-", value.text(), ratio]))
    rows.sort(key=lambda row: -row[0])
    head = ["", "empty table", f"with {finished:,} finished jobs", "ratio"]
    return table(head, [cells for _, cells in rows])


def kill(summary: Summary) -> str:
    rows = []
    for peer in summary.peers:
        for one in summary.rounds(peer, "kill"):
            took = f"{one['seconds']:.1f} s" if one["seconds"] is not None else f"not within {one['waited']:.0f} s"
            if one["seconds"] is None and one["again"]:
                took += f" ({one['again']} of {one['jobs']} did, the first after {one['first']:.1f} s)"
            order = float("inf") if one["seconds"] is None else one["seconds"]
            rows.append((order, [_name(summary, peer), took, summary.about(peer).get("recovery", "")]))
    rows.sort(key=lambda row: row[0])
    return table(["", "jobs run again after", "determined by"], [cells for _, cells in rows])


def settings(summary: Summary) -> str:
    rows = []
    for peer in summary.peers:
        about = summary.about(peer)
        kept = {True: "kept", False: "deleted", None: ""}[about.get("history")]
        rows.append(
            [
                _name(summary, peer),
                str(about.get("version", "")),
                str(about.get("language", "")),
                {"postgresql": "PostgreSQL", "redis": "Redis"}.get(about.get("store", ""), ""),
                kept,
                str(about.get("processes", "")),
                "; ".join(about.get("settings", [])),
            ]
        )
    return table(["", "version", "language", "storage", "finished jobs", "processes", "settings"], rows)


def _name(summary: Summary, peer: str) -> str:
    shown = summary.shown(peer)
    return f"**{shown}**" if peer == "treadle" else shown


def _unit(key: str) -> str:
    return {"/s": "", " MB": " MB"}.get(BY_KEY[key].unit, BY_KEY[key].unit)


def _cell_with_ratio(summary: Summary, peer: str, key: str) -> str:
    value, ratio = summary.value(peer, key), summary.ratio(peer, key)
    if value is None or ratio is None:
        return _cell(summary, peer, key)
    return f"{value.middle:,.{digits(key)}f}" + ("" if peer == "treadle" else f" ({ratio:.2f})")


def _cell(summary: Summary, peer: str, key: str) -> str:
    value = summary.value(peer, key)
    if value:
        return value.text(digits(key))
    found = summary.raw["peers"][peer]["measures"].get(BY_KEY[key].measure, {})
    return "failed" if "failed" in found else "-"
