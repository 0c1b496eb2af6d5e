"""treadle enqueue: arguments are converted and checked as the function declares them."""

from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.commands import TREADLE, json_output_of, output_of, run_in_process, run_treadle
from tests.support.screens import terminal
from treadle import JobQueue, JobRow, Once
from treadle.cli import main

APP = ("--app", "tests.support.cli_app:app")
pytestmark = pytest.mark.usefixtures("database_of_cli_app")


def enqueued(queue: JobQueue, *arguments: str, **more: Any) -> JobRow:
    return queue.get(output_of("enqueue", *arguments, **more).strip())


def test_a_pipe_gets_only_the_id(queue: JobQueue) -> None:
    said = output_of("enqueue", "welcome", "user_id=7", *APP)
    (job,) = queue.list().jobs
    assert said == f"{job.id}\n"
    assert (job.data, job.priority) == ({"user_id": 7}, 30)


@pytest.mark.parametrize(
    ("typed", "becomes"),
    [
        ("name=7", {"name": "7"}),
        ("name=null", {"name": "null"}),
        ('name="Ada"', {"name": '"Ada"'}),
        ("name=a=b", {"name": "a=b"}),
        ("name=", {"name": ""}),
        ("price=1.10", {"price": "1.10"}),
        ("price=7", {"price": "7"}),
        ("when=2030-01-31T08:00:00", {"when": "2030-01-31T08:00:00"}),
        ('tags=["a", "b"]', {"tags": ["a", "b"]}),
        ("tags=null", {"tags": None}),
        ("whatever=1.5", {"whatever": 1.5}),
        ("whatever=true", {"whatever": True}),
        ("whatever=NaN", {"whatever": "NaN"}),
        ("whatever=some words", {"whatever": "some words"}),
        ('whatever:="7"', {"whatever": "7"}),
        ('whatever:={"a": [1]}', {"whatever": {"a": [1]}}),
    ],
)
def test_typed_values_are_converted_for_the_function(queue: JobQueue, typed: str, becomes: dict[str, Any]) -> None:
    assert enqueued(queue, "welcome", "user_id=7", typed, *APP).data == {"user_id": 7, **becomes}


def test_a_function_with_keyword_arguments_accepts_any_name(queue: JobQueue) -> None:
    assert enqueued(queue, "loose", "a=1", "b=2", *APP).data == {"a": 1, "b": 2}
    assert "loose.a: Input should be a valid integer" in run_treadle("enqueue", "loose", "a=x", *APP).stderr


def test_arguments_as_an_object_from_an_option_or_standard_input(queue: JobQueue) -> None:
    assert enqueued(queue, "welcome", "--data", '{"user_id": 7, "name": "a"}', *APP).data["name"] == "a"
    assert enqueued(queue, "welcome", "-", *APP, text='{"user_id": 8}').data == {"user_id": 8}
    assert enqueued(queue, "welcome", "--data", "-", *APP, text='{"user_id": 9}').data == {"user_id": 9}
    beside = enqueued(queue, "welcome", "-", "user_id=11", *APP, text='{"user_id": 10, "name": "b"}')
    assert beside.data == {"user_id": 11, "name": "b"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["welcome", "user_id=x", *APP], 1, "welcome.user_id: Input should be a valid integer"),
        (["welcome", "user_id=x", *APP], 1, "got a value of type str; it takes (user_id: int, "),
        (["welcome", *APP], 1, "welcome: missing: user_id; it takes (user_id: int"),
        (["welcome", "user_id=1", "nope=1", *APP], 1, "welcome: unexpected: nope; it takes"),
        (["welcome", "user_id=1", "job=1", *APP], 1, "job is the job, which the worker passes"),
        (["welcom", *APP], 1, "there is no job type 'welcom'; known types: loose, welcome"),
        (["welcome", "user_id", *APP], 2, "arguments must be name=value or name:=json, got 'user_id'"),
        (["welcome", "=1", *APP], 2, "arguments must be name=value or name:=json, got '=1'"),
        (["welcome", "user_id:=seven", *APP], 2, "user_id:= must be valid JSON ("),
        (["welcome", "--data", "[1]", *APP], 2, "--data must be a JSON object"),
        (["welcome", "-", "--data", "{}", *APP], 2, "either in --data or on standard input, not both"),
        (["welcome", "-", *APP], 2, "standard input must be valid JSON ("),
        (["welcome", "user_id=1", "--run-at", "soon", *APP], 1, "--run-at must be a time such as"),
        (["welcome", "user_id=1", "--delay", "soon", *APP], 1, "delay must be a duration such as"),
        (["welcome", "user_id=1", "--run-at", "2030-01-01", "--delay", "1m", *APP], 1, "run_at"),
        (["welcome", "user_id=1"], 2, "--app module:app or TREADLE_APP"),
        (["welcome", "user_id=1"], 2, "or enqueue without checks with --raw"),
        (["welcome", "user_id=1", "--app", "no_such_module:app"], 1, "there is no module 'no_such_module' here"),
    ],
)
def test_wrong_input_is_one_sentence(queue: JobQueue, arguments: list[str], code: int, said: str) -> None:
    result = run_treadle("enqueue", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert queue.list().jobs == []


def test_input_in_another_encoding_is_reported(queue: JobQueue) -> None:
    for given in (b"\xff{", b'{"a": "\xff"}'):
        result = CliRunner().invoke(main, ["enqueue", "x", "-", "--raw"], input=given)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "standard input must be valid JSON (" in result.stderr
        assert "\\xff" in result.stderr
    assert queue.list().jobs == []


def test_options(queue: JobQueue) -> None:
    given = ["--priority", "150", "--queue", "slow", "--key", "user:7", "--unique", "u", "--delay", "10m"]
    job = enqueued(queue, "welcome", "user_id=7", *given, *APP)
    assert (job.priority, job.queue, job.key, job.unique_key) == (150, "slow", "user:7", "u")
    assert 500 < (job.run_at - job.created_at).total_seconds() < 700
    assert enqueued(queue, "welcome", "user_id=8", "--unique", "u", *APP).id == job.id


def test_options_for_unique_jobs(queue: JobQueue) -> None:
    given = ["--unique", "u", "--while-pending", "--expires", "10m"]
    said = json_output_of("enqueue", "welcome", "user_id=7", *given, *APP)[0]
    assert (said["is_new"], said["is_changed"]) == (True, False)
    job = queue.get(said["id"])
    assert job.expires_at is not None
    change = ["--on-conflict", "replace", "--on-conflict", "prioritize", "--priority", "150"]
    again = json_output_of("enqueue", "welcome", "user_id=8", *given, *change, *APP)[0]
    assert (again["id"], again["is_new"], again["is_changed"]) == (said["id"], False, True)
    changed = queue.get(said["id"])
    assert (changed.data, changed.priority) == ({"user_id": 8}, 150)
    assert enqueued(queue, "x", "n=1", "--raw", "--unique", "u", "--unique-per", "1h").job_type == "x"
    debounced = enqueued(queue, "welcome", "user_id=9", "--debounce", "30s", "--at-most", "5m", *APP)
    assert debounced.run_at > debounced.created_at
    assert enqueued(queue, "welcome", "user_id=9", "--throttle", "1 per 5m", *APP).data == {"user_id": 9}


def test_a_duplicate_is_refused_in_one_sentence(queue: JobQueue) -> None:
    first = queue.enqueue("welcome", unique=Once(key="u"))
    result = run_in_process("enqueue", "welcome", "user_id=8", "--unique", "u", "--on-conflict", "raise", *APP)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.strip().endswith(f"welcome was not enqueued: job {first} has the same unique key")


def test_a_time_without_an_offset_is_local(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_in_process("enqueue", "x", "--raw", "--run-at", "2030-01-31T08:00", TZ="Asia/Tokyo")
    assert queue.get(said.stdout.strip()).run_at.isoformat() == "2030-01-30T23:00:00+00:00"


def test_raw_checks_nothing(queue: JobQueue) -> None:
    job = enqueued(queue, "nobody_knows", "a=1", "b=x", "c:=[1]", "--raw", "--queue", "q")
    assert (job.job_type, job.data, job.queue) == ("nobody_knows", {"a": 1, "b": "x", "c": [1]}, "q")


def test_json(queue: JobQueue) -> None:
    (said,) = json_output_of("enqueue", "welcome", "user_id=7", *APP)
    job_id = str(queue.list().jobs[0].id)
    assert said == {"id": job_id, "job_type": "welcome", "is_new": True, "is_changed": False}


def test_a_terminal_gets_a_sentence_and_live_progress(url: str, queue: JobQueue) -> None:
    given = ["enqueue", "films", "--raw", "--watch", "--database-url", url]
    with terminal(*given) as screen:
        screen.wait_for("Enqueued films ", "waiting for a worker")
        (job,) = queue.claim(["films"])
        queue.complete(job)
        assert screen.wait_for_exit() == 0
        assert str(job.id) in screen.text()
        assert "completed" in screen.text()


def test_in_a_pipe_progress_goes_to_standard_error(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    first = queue.enqueue("films", {})
    queue.cancel(first)
    import subprocess

    with subprocess.Popen(
        [TREADLE, "enqueue", "films", "--raw", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        made = process.stdout.readline().strip()
        queue.cancel(made, "seen enough")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "films: cancelled: seen enough" in err
