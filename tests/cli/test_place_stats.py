"""treadle stats of one type or queue."""

from typing import Any

from psycopg import Connection

from tests.operations.test_throughput import add_minutes
from tests.support.commands import json_output_of, output_of, run_treadle
from treadle import JobQueue


def test_stats_of_a_type_and_of_a_queue(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    add_minutes(connection, 30)
    queue.enqueue_many("type1", [{}] * 4, queue="queue1")
    shown = output_of("stats", "type1", "--database-url", url)
    assert "4 waiting" in shown
    assert "no worker for some of its jobs" in shown
    for heading in ("waiting time", "run time", "P50", "P99", "24 h"):
        assert heading in shown
    (found,) = json_output_of("stats", "--queue", "queue1", "--database-url", url)
    assert found["waiting"]["jobs"] == 4
    assert [each["window"] for each in found["activities"]] == [3600, 21_600, 86_400, 604_800]
    assert found["activities"][0]["ran"]["p95"] > 0


def test_a_type_and_a_queue_cannot_be_given_together() -> None:
    result = run_treadle("stats", "films", "--queue", "mail")
    assert result.exit_code == 2
    assert "give a type or --queue, not both" in result.stderr


def test_an_unknown_name_is_an_error(url: str, queue: JobQueue) -> None:
    queue.enqueue("films")
    queue.pause("films")
    for arguments, noun in ((["filmz"], "job type"), (["--queue", "filmz"], "queue")):
        result = run_treadle("stats", *arguments, "--database-url", url)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f"there is no {noun} 'filmz'" in result.stderr
        assert ("did you mean 'films'?" in result.stderr) == (noun == "job type")
