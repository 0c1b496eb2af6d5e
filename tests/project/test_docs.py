"""The code in the README and the examples runs and prints what they say; links and reference pages are complete."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forks import Forks
from treadle import JobQueue

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

EXPECTED: dict[str, str | re.Pattern[str]] = {
    "01_queue_by_hand.py": "picture 8: completed\npicture 7: completed\n",
    "02_in_your_transaction.py": "[{'user': 1}]\n",
    "04_worker.py": "hello ada\n7\ndone at attempt 2\n",
    "05_progress.py": "['fetching', 'resizing'] 5 of 5\n",
    "06_events.py": (
        "- enqueued \n- claimed \n- started \n1 rendered 1\n2 rendered 2\n3 rendered 3\n- completed \n"
        "after 2: ['rendered', 'completed']\nof job True 1\nof job True 2\nof job True 3\n"
    ),
    "10_logs.py": "and a pear\nand a pear\n"
    "[('INFO', '3 apples'), ('INFO', 'and a pear')]\n[('INFO', '3 plums'), ('INFO', 'and a pear')]\n",
    "11_checkpoints.py": ("100 rows, the last attempt began at 50\nuploading a.pdf\nhttps://example.org/a.pdf\n"),
    "12_exactly_once.py": "paid\nbalance: 70\n",
    "13_dashboard.py": ("mallory 401\ngrace 403\nada 200\ncancelled {'to': 'bob'} [('dashboard:ada', 'cancel')]\n"),
    "09_store.py": "report.txt: 3,000,000 bytes\ncounted.txt: b'300000 lines'\n",
    "14_schedules.py": (
        "seconds since the last beat: 1\nreport: full\nbeat every 1s paused\nweekly report 0 9 * * mon active\n"
    ),
    "15_unique.py": (
        "the same job: True new: False\nchanged: True\nrefused because of the first job: True\n"
        "new digests: [True, False]\nexpires: True\n"
        "syncing acme fully\ndigest for user 1\nsyncing other partly\nindexing product 7 because of name\n"
    ),
    "16_limits.py": (
        "at most 3 at once of each: ['acme', 'globex'] True\n"
        "15 calls at 20 per second, after a pause, took more than half a second: True\n"
        "limits: call_api rate, sync_account, sync_account fair, sync_account per tenant\n"
    ),
    # Jobs that become free at the same time run in any order.
    "17_workflows.py": re.compile(
        r"why: waiting_for_jobs\n((order (7|9|10) is on its way|shipping 4\.5 kg with receipt 7)\n){4}"
        r"cancelled: which it waits for, failed: ConnectionError: the courier does not answer\ncompleted\n"
        r"completed \['pay', 'tell_customer'\] weights: \[1\.5, 3\.0\]\n"
    ),
    "18_import_in_batches.py": re.compile(
        r"all rows are checked\ncompleted 33 \['load', 'find', 'summarize'\]\n"
        r"completed WorkflowCounts\(is_open=False, jobs=11, completed=11, failed=0, cancelled=0\)\n"
    ),
    "19_order_with_undo.py": re.compile(
        r"pay 7\npack 7\nunpack 7\nrefund receipt 7\n"
        r"failed failed: ConnectionError: the courier does not answer\n"
    ),
    "20_approval.py": re.compile(
        r"The job waits for the signal approved\ntaken: True\ntaken: False\nON LOOMS, approved by ann\n"
    ),
    "21_testing.py": (
        "due: 1 ['welcome 7']\nraised: the mail server does not answer\nretried: 1 ['welcome 7', 'reminder 7']\n"
        "no job was enqueued that is welcome(user_id=8)\n1 of this type:\n"
        "  welcome(user_id=7), completed, priority 100\n    user_id: expected 8, got 7\n"
        "reported: ReportedProgress(percent=100, stage='sent')\n"
    ),
    # The number of lines between them depends on the speed of the machine.
    "07_watching.py": re.compile(
        r"(import_rows: .*\n)*import_rows: checked row=10\n(import_rows: .*\n)*"
        r"import_rows: completed in .*\ncompleted\n"
    ),
    "08_events_over_http.py": "checked 10\nchecked 30\nend completed\n",
    "03_order_per_key.py": "".join(f"account {name}: booking {n}\n" for n in (1, 2, 3) for name in ("ada", "grace")),
}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    treadle = ["treadle.app", "treadle.queue", "treadle.worker.executor", "treadle.worker.maintenance"]
    forks = Forks("pydantic.fields", *treadle, "unhurried")
    yield forks
    forks.close()


def run(forks: Forks, *code: str, url: str) -> str:
    environment = os.environ | {"TREADLE_DATABASE_URL": url, "TREADLE_TEST_URL": os.environ["TREADLE_TEST_SERVER"]}
    done = forks.run(*code, folder=ROOT, environment=dict(environment))
    assert done.returncode == 0, done.stderr
    # Failed attempts are logged to standard error, with their traceback.
    failed = re.sub(r"^Traceback .*\n(?:  .*\n)*.*\n\n?", "", done.stderr, flags=re.MULTILINE)
    assert all(line.startswith("job failed") for line in failed.splitlines()), done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.name))
def test_an_example_prints_the_expected_output(forks: Forks, example: Path, url: str) -> None:
    output, expected = run(forks, str(example), url=url), EXPECTED[example.name]
    assert output == expected if isinstance(expected, str) else expected.fullmatch(output), output


def readme_code() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(code)


def test_the_code_in_the_readme_works(forks: Forks, url: str, queue: JobQueue) -> None:
    code = readme_code()
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    assert run(forks, "-c", code, url=url) == "7.png\n"
    assert [job.data["picture"] for job in queue.list(status="completed", job_type="thumbnail").jobs] == [8, 7]
    assert len(queue.list(status="completed", job_type="invoice").jobs) == 99 + 1


def test_a_worker_can_import_the_module_in_the_readme(url: str, queue: JobQueue, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(readme_code())
    job = queue.enqueue("thumbnail", {"picture": 3})
    command = [sys.executable, "-m", "treadle", "worker", "jobs:app", "--drain"]
    environment = os.environ | {"TREADLE_DATABASE_URL": url}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert queue.get(job).result == "3.png"
    assert len(queue.list().jobs) == 1  # importing the module has enqueued nothing


def test_the_readme_shows_how_to_install_before_its_code() -> None:
    page = (ROOT / "README.md").read_text()
    assert page.index("pip install") < page.index("```python")


def test_links_between_pages_are_valid() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_sql_function_is_on_the_sql_page() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    folder = ROOT / "src" / "treadle" / "sql" / "functions"
    public = {path.name.split(".")[0] for path in (folder / "public").iterdir()}
    other = {path.stem for name in ("parts", "triggers") for path in (folder / name).iterdir()}
    named = set(re.findall(r"`(\w+)\(", page))
    assert public <= named
    assert not other & named


def test_every_method_of_job_queue_is_on_the_queue_page() -> None:
    page = (ROOT / "docs" / "queue.md").read_text()
    for name in vars(JobQueue):
        if not name.startswith(("_", "a")) and name != "worker_id":
            assert f"{name}(" in page, name
