"""treadle edit and treadle copy: arguments are checked as those of a new job."""

import json

import pytest

from tests.support.commands import json_output_of, output_of, run_treadle
from treadle import JobQueue, JobRow, Retries

APP = ("--app", "tests.support.cli_app:app")
pytestmark = pytest.mark.usefixtures("database_of_cli_app")


@pytest.fixture
def failed(queue: JobQueue) -> JobRow:
    job = queue.enqueue("welcome", {"user_id": 7, "name": "Ann"}, retry=Retries(0))
    queue.fail(queue.claim(["welcome"])[0], "no such user")
    return queue.get(job)


def test_a_failed_job_is_edited_and_retried(queue: JobQueue, failed: JobRow) -> None:
    said = output_of("edit", str(failed.id)[-8:], "user_id=8", "name=9", "--retry", "--reason", "a typo", *APP)
    assert said == f"Edited welcome {failed.id} (was failed, now pending).\n"
    assert queue.get(failed.id).data == {"user_id": 8, "name": "9"}
    (again,) = json_output_of("edit", str(failed.id), "user_id=9", *APP)
    assert again == {"id": str(failed.id), "edited": True, "was": "pending", "is": "pending"}


def test_a_copy_has_other_arguments(queue: JobQueue, failed: JobRow) -> None:
    copy = queue.get(output_of("copy", str(failed.id), "user_id=8", *APP).strip())
    assert (copy.data, copy.status) == ({"user_id": 8, "name": "Ann"}, "pending")
    (same,) = json_output_of("copy", str(failed.id))
    assert (queue.get(same["id"]).data, same["copy_of"]) == (failed.data, str(failed.id))
    raw = output_of("copy", str(failed.id), "--raw", "--data", json.dumps({"anything": [1]}))
    assert queue.get(raw.strip()).data == {**failed.data, "anything": [1]}


def test_wrong_input_is_one_sentence(queue: JobQueue, failed: JobRow) -> None:
    target = str(failed.id)
    for arguments, code, said in (
        (["edit", target], 2, "give the arguments that change, such as user_id=8, or --retry"),
        (["edit", target, "user_id=8"], 2, "or enqueue without checks with --raw"),
        (["edit", target, "user_id=x", *APP], 1, "welcome.user_id: "),
        (["edit", target, "user=8", *APP], 1, "welcome.user: there is no such argument"),
        (["copy", target, "user", *APP], 2, "arguments must be name=value or name:=json"),
        (["copy", "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35"], 1, "there is no job 0199b1c2"),
    ):
        result = run_treadle(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), arguments
        assert said in result.stderr
    assert [each.data for each in queue.list().jobs] == [failed.data]


def test_what_is_not_edited_says_why(queue: JobQueue, failed: JobRow) -> None:
    same = run_treadle("edit", str(failed.id), "user_id=7", *APP)
    assert (same.exit_code, same.stderr) == (
        1,
        f"welcome {failed.id} has these arguments already, or is a workflow.\n",
    )
    queue.retry(failed.id)
    (job,) = queue.claim(["welcome"])
    assert (
        "is claimed and cannot be edited; cancel it first" in run_treadle("edit", str(job.id), "user_id=8", *APP).stderr
    )
    queue.complete(job)
    assert (
        "is completed and cannot be edited; copy it with" in run_treadle("edit", str(job.id), "user_id=8", *APP).stderr
    )
