"""How treadle top draws, row by row: places that stay, lines that fit, and what is asked before something is done."""

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
from treadle.cli.top import looks
from treadle.cli.top.acts import changing, pausing
from treadle.cli.top.columns import FAILED, JOBS, LANES, WORKERS, LaneNow, WorkerNow
from treadle.cli.top.head import first_line, second_line, spark
from treadle.cli.top.table import Board
from treadle.words.changes import Action, ChangeResult, Pause
from treadle.words.overview import Lane, Overview, Span, Total, WorkerRow
from treadle.words.snapshot import JobSnapshot

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def seen(number: int, **changes: Any) -> JobSnapshot:
    began = NOW + timedelta(seconds=number)
    progress = Progress(number, "stage", 1, 2, 3.0, 4.0)
    job = JobSnapshot(
        UUID(int=number), f"job{number}", Status.RUNNING, progress, 1, 3, "e", False, 0, NOW, began, None, NOW
    )
    return job._replace(**changes)


def lane(job_type: str, depth: int, **changes: Any) -> LaneNow:
    made = Lane("default", job_type, 100, depth, True, NOW - timedelta(seconds=5), None, False, True)
    return LaneNow(made._replace(**changes), NOW)


class One(App[None]):
    """One table alone."""

    def __init__(self, board: Board[Any]) -> None:
        super().__init__()
        self.board = board

    def compose(self) -> ComposeResult:
        yield self.board


def shown(
    board: Board[Any], body: Callable[[One, Any], Coroutine[Any, Any, None]], width: int = 80, height: int = 6
) -> None:
    async def both() -> None:
        app = One(board)
        async with app.run_test(size=(width, height)) as pilot:
            board.focus()
            await pilot.pause()
            await body(app, pilot)

    asyncio.run(both())


def first_words(board: Board[Any]) -> list[str]:
    return [line.plain.split()[0] for line in board._lines[1:]]


def test_the_chosen_row_stays_chosen_wherever_it_goes() -> None:
    board = Board(JOBS, "jobs")

    async def body(app: One, pilot: Any) -> None:
        board.show([seen(n) for n in (1, 2, 3)])
        await pilot.press("down")
        assert board.chosen == seen(2)
        board.show([seen(n) for n in (0, 1, 2, 3)])
        assert board.chosen == seen(2)
        board.show([seen(n) for n in (0, 1, 3)])
        assert board.chosen == seen(3), "of one that is gone the place stays"
        board.show([])
        assert board.chosen is None
        assert board._lines[1].plain == "nothing runs"

    shown(board, body)


def test_what_does_not_fit_is_scrolled_to() -> None:
    board = Board(JOBS, "jobs")

    async def body(app: One, pilot: Any) -> None:
        board.show([seen(n) for n in range(20)])
        assert board._lines[0].plain.startswith("running 1-5 of 20")
        await pilot.press("end")
        assert first_words(board) == ["job15", "job16", "job17", "job18", "job19"]
        await pilot.press("k", "k")
        assert board.chosen == seen(17)
        assert first_words(board)[0] == "job15", "nothing is scrolled without need"
        await pilot.press("home")
        assert first_words(board)[0] == "job0"

    shown(board, body)


def test_only_lines_that_changed_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(JOBS, "jobs")
    drawn: list[int] = []

    def refresh(*regions: Region, **_: Any) -> Any:
        drawn.extend(region.y for region in regions)
        return board

    async def body(app: One, pilot: Any) -> None:
        board.show([seen(n) for n in range(4)])
        monkeypatch.setattr(board, "refresh", refresh)
        board.show([seen(n) for n in range(4)])
        assert drawn == []
        board.show(
            [seen(n, **({"worker_id": None, "progress": Progress(99, "x")} if n == 2 else {})) for n in range(4)]
        )
        assert drawn == [3]
        drawn.clear()
        board.show([seen(n) for n in range(3)])
        assert sorted(set(drawn)) == [0, 3, 4], "the count, the changed one and the line that is free now"
        monkeypatch.undo()

    shown(board, body)


def test_a_lane_that_is_a_little_deeper_does_not_move() -> None:
    board = Board(LANES, "lanes")

    async def body(app: One, pilot: Any) -> None:
        board.show([lane("a", 70), lane("b", 100), lane("c", 1000), lane("d", 0)])
        assert first_words(board) == ["c", "a", "b", "d"]
        board.show([lane("a", 120), lane("b", 65), lane("c", 1000), lane("d", 0)])
        assert first_words(board) == ["c", "a", "b", "d"]
        await pilot.press("s")
        board.show([lane("a", 1), lane("b", 1, due_since=NOW - timedelta(hours=1))])
        assert first_words(board) == ["b", "a"], "by how long the first one has waited"

    shown(board, body)


def test_lanes_in_words() -> None:
    board = Board(LANES, "lanes")

    async def body(app: One, pilot: Any) -> None:
        later = {"due_since": None, "due_next": NOW + timedelta(minutes=5)}
        board.show([lane("a", 1, paused=True, served=False), lane("b", 0, served=False), lane("c", 3, exact=False)])
        assert board._lines[1].plain.split()[3:] == ["~3", "5.0s"]
        assert "paused" in board._lines[2].plain
        assert "no worker" not in board._lines[3].plain, "where nothing waits, nobody is missed"
        board.show([lane("d", 1, **later)])
        assert board._lines[1].plain.split()[3:] == ["1", "in", "5m", "00s"]

    shown(board, body)


@pytest.mark.parametrize("width", [60, 68, 80, 120, 200])
def test_rows_fit_whatever_the_width(width: int) -> None:
    long = "東京" * 40
    job = seen(1, job_type=long, error=long, progress=Progress(61, long, 10**9, 2 * 10**9, 21_234.4, 90_000.0))
    worker = WorkerRow(long, long, 1, "1", [long, long], None, 10_000, NOW, NOW, True, None, 10_000)
    tables: list[tuple[Any, Any]] = [
        (JOBS, job),
        (FAILED, job._replace(finished_at=NOW)),
        (LANES, lane(long, 10**9, queue=long, paused=True)),
        (WORKERS, WorkerNow(worker, NOW)),
        (WORKERS, WorkerNow(worker._replace(alive=False, lost_at=NOW), NOW + timedelta(days=3))),
    ]
    for plan, item in tables:
        board: Board[Any] = Board(plan, "any")

        async def body(app: One, pilot: Any, board: Board[Any] = board, item: Any = item) -> None:
            board.show([item] * 3)
            for line in board._lines:
                assert cell_len(line.plain.rstrip()) <= width, line.plain

        shown(board, body, width)


def test_a_lost_worker_is_said_to_be() -> None:
    board = Board(WORKERS, "workers")
    lost = WorkerRow("gone", None, None, None, None, None, None, NOW, NOW, False, NOW, 0)

    async def body(app: One, pilot: Any) -> None:
        board.show([WorkerNow(lost, NOW + timedelta(seconds=90))])
        assert board._lines[1].plain.split() == ["gone", "by", "hand", "0", "lost", "1m", "30s"]

    shown(board, body)


def overview(**changes: Any) -> Overview:
    spans = [Span(NOW - timedelta(minutes=n), n, 1, 0, 0, None, None, None, None) for n in range(90, -1, -1)]
    totals = {Status.PENDING: Total(1_234_567, False), Status.RUNNING: Total(3, True)}
    return Overview(NOW, [], [], [], spans, 60, totals, 212.0)._replace(**changes)


@pytest.mark.parametrize("width", [60, 80, 100, 140, 220])
def test_the_head_fits(width: int) -> None:
    line = second_line(overview(), width)
    assert line.cell_len <= width
    assert "waiting ~1.2M   running 3   failed 60 in 1h" in line.plain
    for away in (None, 3.0, 90_000.0):
        assert first_line("x" * 300, "y" * 300, NOW, width, away).cell_len <= max(width, 85)
    assert first_line("db.example.org/shop", "mail", NOW, 80, None).plain.startswith("db.example.org/shop  type: mail")
    assert "away for 3.0s; trying" in first_line("db", "", NOW, 80, 3.0).plain


def test_a_sparkline_shows_shares_of_the_highest() -> None:
    assert spark([]) == ""
    assert spark([0, 0]) == "▁▁"
    assert spark([0, 1, 50, 100]) == "▁▂▅█", "what is not nothing is seen"


@pytest.mark.parametrize(
    ("pauses", "asked", "meant"),
    [
        ([], "Pause mail?", ("mail", None)),
        ([("other", None), ("mail", "slow")], "Pause mail?", ("mail", None)),
        ([("mail", None)], "Resume mail?", ("mail", None)),
        ([(None, "default")], "Resume queue default?", (None, "default")),
        ([(None, None)], "Resume everything?", (None, None)),
        ([(None, None), ("mail", None), ("mail", "default")], "Resume mail in queue default?", ("mail", "default")),
    ],
)
def test_what_a_p_would_do(pauses: list[Any], asked: str, meant: tuple[str | None, str | None]) -> None:
    made = [Pause(job_type, queue, NOW, "ada", "why") for job_type, queue in pauses]
    act = pausing("treadle", "mail", "default", made, "top:me")
    assert act.question.startswith(asked)
    assert (act.query.params["job_type"], act.query.params["queue"]) == meant
    assert act.query.params["actor"] == "top:me"


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("done", "job1 0001 cancelled"),
        ("busy", "job1 0001 is held by somebody at this moment; try again"),
        ("missing", "job1 0001 is not there any more"),
        ("unfit", "job1 0001 is running, so it cannot be cancelled"),
    ],
)
def test_what_came_of_it_is_said(outcome: str, said: str) -> None:
    act = changing("treadle", Action.CANCEL, seen(1), "top:me")
    assert act.said([ChangeResult(UUID(int=1), outcome, Status.RUNNING)]) == said


def test_a_database_that_takes_its_time_is_looked_at_less_often(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look() -> float:
        made = looks.Looks(app)
        try:
            await made.first()
            return made.spacing
        finally:
            await app.aclose()

    monkeypatch.setattr(looks, "SHARE", 10**6)
    assert asyncio.run(look()) == looks.LONGEST
    monkeypatch.setattr(looks, "SHARE", 0)
    assert asyncio.run(look()) == looks.SECONDS


def test_a_look_is_seven_statements_that_cannot_write(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def look() -> None:
        original = app.database.alook_together

        async def alook_together(queries: Any, *rest: Any) -> Any:
            asked.extend(query.text for query in queries)
            return await original(queries, *rest)

        monkeypatch.setattr(app.database, "alook_together", alook_together)
        monkeypatch.setattr(app.database, "arun_together", None)
        try:
            await looks.Looks(app).first()
        finally:
            await app.aclose()

    asyncio.run(look())
    assert len(asked) == 7
