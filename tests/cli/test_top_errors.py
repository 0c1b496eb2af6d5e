"""Groups of errors in treadle top: the same as the command and the page list."""

from datetime import UTC, datetime, timedelta

from tests.cli.test_top import ENTER, ESCAPE, row_of
from tests.support.commands import output_of
from tests.support.error_groups import count_now, fail
from tests.support.screens import terminal
from treadle import JobQueue, Treadle
from treadle.cli.top.error_columns import ERRORS, ErrorsNow
from treadle.words.error_group import ErrorGroup

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def test_groups_are_listed_as_the_command_lists_them(url: str, app: Treadle, queue: JobQueue) -> None:
    fail(queue, ["ValueError: row 7 is torn", "ValueError: row 8 is torn"], "import")
    fail(queue, ["KeyError: 'sku'"], "mail")
    count_now(app)
    lines = output_of("errors", "--database-url", url).splitlines()[1:]
    listed = [(job_type, number, day) for number, job_type, day, *_ in map(str.split, lines)]
    assert [(job_type, day) for job_type, _, day in listed] == [("import", "2"), ("mail", "1")]
    with terminal("top", "--database-url", url) as screen:
        screen.press("e")
        screen.wait_for("errors 2", "24h▾", "trend", "ValueError")
        assert [tuple(row_of(screen, "errors", each[0]).split()[:3]) for each in listed] == listed
        assert max(map(len, screen.lines())) <= 80
        screen.press("r")
        screen.wait_for(f"To retry its jobs: treadle errors retry {listed[0][1]}")
        screen.press("p")
        screen.wait_for("Select a type or a job to pause its job type.")
        screen.press("/sku")
        screen.wait_for("errors 1 ")
        screen.press(ESCAPE)
        screen.wait_for("errors 2")
        screen.press("\x1b[H" + ENTER)  # Home
        screen.wait_for("import", "failed", "is torn")
        screen.press(ESCAPE)
        screen.wait_for("errors 2")
        screen.press("e")
        screen.wait_for("progress")


def test_cells() -> None:
    first, last = NOW - timedelta(hours=30), NOW - timedelta(seconds=90)
    trend = [0] * 23 + [1500]
    group = ErrorGroup(17, "a\x1b[2J", "ValueError", "torn", 2000, first, last, [], ["v2"], trend, None)
    cells = [str(column.cell(ErrorsNow(group, NOW), 20)) for column in ERRORS.columns]
    assert cells == ["a [2J", "17", "1,500", "2,000", "▁" * 11 + "█", "1d 6h", "1m 30s", "v2", "ValueError: torn"]
