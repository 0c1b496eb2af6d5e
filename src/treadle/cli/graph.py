"""Draws the graph of a workflow as text, for treadle show: a line for each job, layer by layer."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from rich.console import Console
from rich.text import Text

from treadle.cli.output import COLOURS, counted, heading, write
from treadle.operations.critical_path import critical_path, durations, layers
from treadle.operations.graph_groups import Item, Kind, group_label, items
from treadle.words.formatting import printable, span
from treadle.words.graph import Graph, in_order, states
from treadle.words.payload import Json

# More lines than this are summarised.
MAX_LINES = 60
# Names in one line, and characters of a name.
MAX_NAMES = 3
MAX_NAME = 60
# Failed jobs that are listed if they are in groups.
MAX_FAILED = 10
MARKS = {
    "pending": "○",
    "blocked": "◌",
    "claimed": "◔",
    "running": "▶",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "skipped": "↷",
    "deleted": "∅",
}
_STYLES = {status.value: colour for status, colour in COLOURS.items()} | {
    "blocked": "yellow",
    "skipped": "dim",
    "deleted": "dim",
}


def show_graph(console: Console, graph: Graph, *, full: bool = False) -> None:
    heading(console, "jobs")
    members, path = graph.members, critical_path(graph)
    numbers = ", ".join(f"{number:,} {state}" for state, number in states(members).items())
    write(console, f"  {counted(len(members))}: {numbers}")
    if path.nodes:
        write(console, f"  critical path, marked *: {span(path.seconds)} in {counted(len(path.nodes))}")
    if graph.more:
        write(console, "  The workflow has more jobs than these.")
    if graph.sampled:
        write(console, "  Some connections are left out, because there are too many.")
    most = len(graph.nodes) if full else MAX_LINES
    found = items(graph, most, max_edges=len(graph.nodes) ** 2, blocks=False)
    labels = [_label(graph, each) for each in found]
    writer = _Writer(console, graph, set(path.nodes), full)
    last = -1
    for item, label in sorted(zip(found, labels, strict=True), key=lambda each: each[0].layer):
        names = [labels[each] for each in item.after]
        writer.item(item, label, names, item.layer if item.layer != last else None)
        last = item.layer
    if any(each.kind is Kind.GROUP for each in found):
        writer.failed([nth for each in found if each.kind is Kind.GROUP for nth in each.nodes])
        write(console, Text("  Similar jobs are shown as one line; --full shows all", style="dim"))


def graph_object(graph: Graph) -> Json:
    """For --json."""
    path = critical_path(graph)
    critical = set(path.nodes)
    depth, seconds = layers(graph.after), durations(graph)
    found: Json = {
        "jobs": [
            {
                "id": str(node.id),
                "name": node.name,
                "job_type": node.job_type,
                "status": node.status,
                "state": node.state,
                "progress": node.progress,
                "started_at": node.started_at.isoformat() if node.started_at else None,
                "finished_at": node.finished_at.isoformat() if node.finished_at else None,
                "seconds": seconds[nth],
                "layer": depth[nth],
                "critical": nth in critical,
                "outside": node.outside,
                "after": [str(graph.nodes[each].id) for each in graph.after[nth]],
            }
            for nth, node in enumerate(graph.nodes)
        ],
        "critical_path": [str(graph.nodes[nth].id) for nth in path.nodes],
        "critical_seconds": path.seconds,
        "more": graph.more,
        "sampled": graph.sampled,
    }
    return found


class _Writer:
    def __init__(self, console: Console, graph: Graph, critical: set[int], full: bool) -> None:
        self.console = console
        self.graph = graph
        self.seconds = durations(graph)
        self.critical = critical
        self.full = full

    def item(self, item: Item, label: str, names: Sequence[str], layer: int | None) -> None:
        """The layer, a mark, the state, the duration, the name, what it waits for, and the id."""
        line = Text(f"  {'' if layer is None else layer + 1:>3} ")
        line.append("* " if any(nth in self.critical for nth in item.nodes) else "  ", style="bold")
        if item.kind is Kind.GROUP:
            self._group(line, item, label)
        else:
            self._job(line, item.nodes[0], label)
        if names:
            line.append(f"  ← {_listed(names)}", style="dim")
        self._write(line, self.graph.nodes[item.nodes[0]].id if item.kind is Kind.JOB else None)

    def failed(self, nodes: Sequence[int]) -> None:
        found = [nth for nth in nodes if self.graph.nodes[nth].state == "failed"]
        for nth in found[:MAX_FAILED]:
            line = Text(" " * 8)
            self._job(line, nth, _name(self.graph, nth))
            self._write(line, self.graph.nodes[nth].id)
        if len(found) > MAX_FAILED:
            write(self.console, f"        and {len(found) - MAX_FAILED:,} more failed")

    def _job(self, line: Text, nth: int, label: str) -> None:
        node = self.graph.nodes[nth]
        line.append(f"{MARKS[node.state]} {node.state:<9}", style=_STYLES[node.state])
        line.append(f" {_duration(self.seconds[nth]):>7}  {label}")
        if node.job_type and node.label != node.job_type:
            line.append(f": {_cut(node.job_type)}")
        if node.state == "running" and node.progress:
            line.append(f"  {node.progress}%")
        if node.outside:
            line.append("  (not a part of the workflow)", style="dim")

    def _group(self, line: Text, item: Item, label: str) -> None:
        counts = in_order(Counter(self.graph.nodes[nth].state for nth in item.nodes))
        state = next(iter(counts))
        longest = max((took for nth in item.nodes if (took := self.seconds[nth]) is not None), default=None)
        line.append(f"{MARKS[state]} {counted(len(item.nodes)):<11}", style=_STYLES[state])
        line.append(f" {_duration(longest):>5}  {label}: ")
        line.append(", ".join(f"{number:,} {each}" for each, number in counts.items()))

    def _write(self, line: Text, job_id: UUID | None) -> None:
        if job_id is not None:
            line.append(f"  {job_id}", style="dim")
        if self.console.is_terminal and not self.full:
            line.truncate(self.console.width, overflow="ellipsis")
        write(self.console, line)


def _label(graph: Graph, item: Item) -> str:
    if item.kind is Kind.GROUP:
        return _cut(group_label([graph.nodes[nth] for nth in item.nodes]))
    return _name(graph, item.nodes[0])


def _name(graph: Graph, nth: int) -> str:
    return _cut(graph.nodes[nth].label)


def _cut(text: str) -> str:
    text = printable(text[: 4 * MAX_NAME])
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES:,} more"


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else span(seconds)
