"""How treadle top draws: tables, header, questions and messages."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.geometry import Region

from treadle import JobQueue, Progress, Status, Treadle
from treadle.cli.top import refresh
from treadle.cli.top.actions import change_job, pause_or_resume
from treadle.cli.top.columns import FAILED, JOBS, LANES, WORKERS, LaneNow, WorkerNow
from treadle.cli.top.header import first_line, second_line, sparkline
from treadle.cli.top.table import Table
from treadle.text.stuck import GIL_HELD, OTHER_THREAD
from treadle.words.changes import Action, ChangeResult, Pause
from treadle.words.overview import Backlog, Overview, Span, Total, WorkerRow
from treadle.words.snapshot import JobSnapshot
from treadle.words.stuck import Stuck

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def snapshot(number: int, **changes: Any) -> JobSnapshot:
    began = NOW + timedelta(seconds=number)
    progress = Progress(number, "stage", 1, 2, 3.0, 4.0)
    job = JobSnapshot(
        UUID(int=number), f"job{number}", Status.RUNNING, progress, 1, 3, "e", False, 0, NOW, began, None, NOW
    )
    return job._replace(**changes)


def lane(job_type: str, depth: int, **changes: Any) -> LaneNow:
    made = Backlog("default", job_type, 100, depth, True, NOW - timedelta(seconds=5), None, False, True)
    return LaneNow(made._replace(**changes), NOW)


class One(App[None]):
    """One table alone."""

    def __init__(self, table: Table[Any]) -> None:
        super().__init__()
        self.table = table

    def compose(self) -> ComposeResult:
        yield self.table


def shown(
    table: Table[Any], body: Callable[[One, Any], Coroutine[Any, Any, None]], width: int = 80, height: int = 6
) -> None:
    async def both() -> None:
        app = One(table)
        async with app.run_test(size=(width, height)) as pilot:
            table.focus()
            await pilot.pause()
            await body(app, pilot)

    asyncio.run(both())


def first_words(table: Table[Any]) -> list[str]:
    return [line.plain.split()[0] for line in table._lines[1:]]


def test_the_selection_follows_its_row() -> None:
    table = Table(JOBS, "jobs")

    async def body(app: One, pilot: Any) -> None:
        table.show([snapshot(n) for n in (1, 2, 3)])
        await pilot.press("down")
        assert table.selected == snapshot(2)
        table.show([snapshot(n) for n in (0, 1, 2, 3)])
        assert table.selected == snapshot(2)
        table.show([snapshot(n) for n in (0, 1, 3)])
        assert table.selected == snapshot(3), "the row at the position of one that is gone is selected"
        table.show([])
        assert table.selected is None
        assert table._lines[1].plain == "No jobs are running."

    shown(table, body)


def test_long_tables_scroll() -> None:
    table = Table(JOBS, "jobs")

    async def body(app: One, pilot: Any) -> None:
        table.show([snapshot(n) for n in range(20)])
        assert table._lines[0].plain.startswith("running 1-5 of 20")
        await pilot.press("end")
        assert first_words(table) == ["job15", "job16", "job17", "job18", "job19"]
        await pilot.press("k", "k")
        assert table.selected == snapshot(17)
        assert first_words(table)[0] == "job15", "the table scrolls only as far as needed"
        await pilot.press("home")
        assert first_words(table)[0] == "job0"

    shown(table, body)


def test_only_changed_lines_are_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(JOBS, "jobs")
    drawn: list[int] = []

    def refresh(*regions: Region, **_: Any) -> Any:
        drawn.extend(region.y for region in regions)
        return table

    async def body(app: One, pilot: Any) -> None:
        table.show([snapshot(n) for n in range(4)])
        monkeypatch.setattr(table, "refresh", refresh)
        table.show([snapshot(n) for n in range(4)])
        assert drawn == []
        table.show(
            [snapshot(n, **({"worker_id": None, "progress": Progress(99, "x")} if n == 2 else {})) for n in range(4)]
        )
        assert drawn == [3]
        drawn.clear()
        table.show([snapshot(n) for n in range(3)])
        assert sorted(set(drawn)) == [0, 3, 4], "the count, the changed row and the line that is empty now"
        monkeypatch.undo()

    shown(table, body)


def test_the_text_of_lanes() -> None:
    table = Table(LANES, "lanes")

    async def body(app: One, pilot: Any) -> None:
        later = {"due_since": None, "due_next": NOW + timedelta(minutes=5)}
        table.show([lane("a", 1, paused=True, served=False), lane("b", 0, served=False), lane("c", 3, exact=False)])
        assert table._lines[1].plain.split()[3:] == ["3+", "5.0s"]
        assert "paused" in table._lines[2].plain
        assert "no worker" not in table._lines[3].plain, "a lane without waiting jobs needs no worker"
        table.show([lane("d", 1, **later)])
        assert table._lines[1].plain.split()[3:] == ["1", "in", "5m", "00s"]

    shown(table, body)


@pytest.mark.parametrize("width", [60, 68, 80, 120, 200])
def test_rows_fit_every_width(width: int) -> None:
    long = "東京" * 40
    job = snapshot(1, job_type=long, error=long, progress=Progress(61, long, 10**9, 2 * 10**9, 21_234.4, 90_000.0))
    worker = WorkerRow(long, long, 1, "1", [long, long], None, 10_000, NOW, NOW, True, None, 10_000)
    tables: list[tuple[Any, Any]] = [
        (JOBS, job),
        (FAILED, job._replace(finished_at=NOW)),
        (LANES, lane(long, 10**9, queue=long, paused=True)),
        (WORKERS, WorkerNow(worker, NOW)),
        (WORKERS, WorkerNow(worker._replace(alive=False, lost_at=NOW), NOW + timedelta(days=3))),
    ]
    for spec, item in tables:
        table: Table[Any] = Table(spec, "any")

        async def body(app: One, pilot: Any, table: Table[Any] = table, item: Any = item) -> None:
            table.show([item] * 3)
            for line in table._lines:
                assert cell_len(line.plain.rstrip()) <= width, line.plain

        shown(table, body, width)


def test_rows_keep_their_order_until_the_reader_sorts_them() -> None:
    table = Table(LANES, "lanes")

    def show(**depths: int) -> list[str]:
        lanes = [Backlog("default", name, 100, depth, True, None, None, False, True) for name, depth in depths.items()]
        table.show([LaneNow(each, NOW) for each in lanes])
        return first_words(table)

    async def body(app: One, pilot: Any) -> None:
        assert show(a=5, b=70, c=60) == ["b", "c", "a"], "most first"
        assert show(a=500, b=7, c=60) == ["b", "c", "a"], "the numbers change, the rows stay"
        assert show(a=500, c=60) == ["c", "a"]
        assert show(a=500, b=7, c=60, d=10_000) == ["b", "c", "a", "d"], "a new one comes last"
        for _ in range(len(table._sortable())):
            await pilot.press("s")
        assert first_words(table) == ["d", "a", "c", "b"]
        assert show(a=1, b=7, c=60, d=10_000) == ["d", "a", "c", "b"]

    shown(table, body)


def test_estimates_are_marked() -> None:
    table = Table(LANES, "lanes")
    lane = Backlog("default", "a", 100, 300_000, False, None, None, False, True, NOW)

    async def body(app: One, pilot: Any) -> None:
        table.show([LaneNow(lane, NOW)])
        assert table._lines[1].plain.split() == ["a", "default", "100", "≈300,000"]
        table.show([LaneNow(lane._replace(counted_at=None), NOW)])
        assert table._lines[1].plain.split() == ["a", "default", "100", "300,000+"]

    shown(table, body)


def test_a_lost_worker_is_marked() -> None:
    table = Table(WORKERS, "workers")
    lost = WorkerRow("gone", None, None, None, None, None, None, NOW, NOW, False, NOW, 0, state="lost")
    silent = lost._replace(worker_id="quiet", lost_at=None, state="silent")

    async def body(app: One, pilot: Any) -> None:
        table.show([WorkerNow(lost, NOW + timedelta(seconds=90))])
        assert table._lines[1].plain.split() == ["gone", "manual", "claims", "0", "lost", "1m", "30s"]
        table.show([WorkerNow(silent, NOW + timedelta(seconds=90))])
        assert table._lines[1].plain.split() == ["quiet", "no", "heartbeat", "0", "1m", "30s"]

    shown(table, body)


@pytest.mark.parametrize(
    ("job_type", "expected"),
    [("gilhog", "blocked by gilhog at jobs.py:30"), (None, "blocked in resize at jobs.py:30")],
)
@pytest.mark.parametrize("width", [100, 150])
def test_what_blocks_a_worker_is_visible(width: int, job_type: str | None, expected: str) -> None:
    table = Table(WORKERS, "workers")
    stack = (
        f'{GIL_HELD}\n{OTHER_THREAD}\n  File "/srv/app/jobs.py", line 30, in resize\n  File "re.py", line 1, in sub\n'
    )
    stuck = Stuck(NOW, "blocked", UUID(int=1), job_type, stack)
    worker = WorkerRow("web-1:4711:0", "web-1", 1, "1", ["a"], None, 10, NOW, NOW, True, None, 1)

    async def body(app: One, pilot: Any) -> None:
        table.show([WorkerNow(worker._replace(state="stuck", stuck=stuck), NOW + timedelta(seconds=90))])
        line = table._lines[1].plain
        assert expected[: 27 if width == 100 else 60] in line
        assert "stuck 1m 30s" in line

    shown(table, body, width)


def overview(**changes: Any) -> Overview:
    spans = [Span(NOW - timedelta(minutes=n), n, 1, 0, 0, None, None, None, None) for n in range(90, -1, -1)]
    totals = {Status.PENDING: Total(1_234_567, False), Status.RUNNING: Total(3, True)}
    return Overview(NOW, [], [], [], spans, 60, totals, 212.0)._replace(**changes)


@pytest.mark.parametrize("width", [60, 80, 100, 140, 220])
def test_the_header_fits_every_width(width: int) -> None:
    line = second_line(overview(), width)
    assert line.cell_len <= width
    assert "waiting 1.2M+   running 3   failed 60 in 1h" in line.plain
    for unavailable_for in (None, 3.0, 90_000.0):
        assert first_line("x" * 300, "y" * 300, NOW, width, unavailable_for).cell_len <= max(width, 85)
    assert first_line("db.example.org/shop", "mail", NOW, 80, None).plain.startswith("db.example.org/shop  type: mail")
    assert "unavailable for 3.0s; retrying" in first_line("db", "", NOW, 80, 3.0).plain


def test_a_sparkline_is_scaled_to_the_highest_value() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 1, 50, 100]) == "▁▂▅█", "1 is not drawn like 0"


@pytest.mark.parametrize(
    ("pauses", "question", "target"),
    [
        ([], "Pause mail?", ("mail", None)),
        ([("other", None), ("mail", "slow")], "Pause mail?", ("mail", None)),
        ([("mail", None)], "Resume mail?", ("mail", None)),
        ([(None, "default")], "Resume queue default?", (None, "default")),
        ([(None, None)], "Resume all jobs?", (None, None)),
        ([(None, None), ("mail", None), ("mail", "default")], "Resume mail in queue default?", ("mail", "default")),
    ],
)
def test_p_pauses_or_ends_the_most_specific_pause(
    pauses: list[Any], question: str, target: tuple[str | None, str | None]
) -> None:
    made = [Pause(job_type, queue, NOW, "ada", "why") for job_type, queue in pauses]
    action = pause_or_resume("mail", "default", made, "top:me")
    assert action.question.startswith(question)
    assert (action.query.params["job_type"], action.query.params["queue"]) == target
    assert action.query.params["actor"] == "top:me"


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("done", "job1 00000001 was cancelled."),
        ("busy", "job1 00000001 is locked by another transaction; try again."),
        ("missing", "job1 00000001 no longer exists."),
        ("unfit", "job1 00000001 is running and cannot be cancelled."),
    ],
)
def test_the_message_after_an_action(outcome: str, message: str) -> None:
    action = change_job(Action.CANCEL, snapshot(1), "top:me")
    assert action.message([ChangeResult(UUID(int=1), outcome, Status.RUNNING)]) == message


def test_a_slow_database_is_refreshed_less_often(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interval() -> float:
        refresher = refresh.Refresher(app)
        try:
            await refresher.first_snapshot()
            return refresher.interval
        finally:
            await app.aclose()

    monkeypatch.setattr(refresh, "SHARE", 10**6)
    assert asyncio.run(interval()) == refresh.LONGEST
    monkeypatch.setattr(refresh, "SHARE", 0)
    assert asyncio.run(interval()) == refresh.SECONDS


def test_a_refresh_is_nine_read_only_statements(app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []

    async def take_snapshot() -> None:
        original = app.database.transport.aread_together

        async def aread_together(queries: Any, *rest: Any) -> Any:
            statements.extend(query.text for query in queries)
            return await original(queries, *rest)

        monkeypatch.setattr(app.database.transport, "aread_together", aread_together)
        monkeypatch.setattr(app.database.transport, "arun_together", None)
        try:
            await refresh.Refresher(app).first_snapshot()
        finally:
            await app.aclose()

    asyncio.run(take_snapshot())
    assert len(statements) == 9
