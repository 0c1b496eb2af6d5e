"""Exit codes, and one sentence instead of a traceback."""

import pytest

from tests.support.commands import run_in_process, run_treadle


def test_migrate(empty_url: str) -> None:
    first = run_treadle("migrate", "--database-url", empty_url)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout.startswith("Schema treadle: applied 0001_baseline.sql, ")
    assert run_treadle("migrate", TREADLE_DATABASE_URL=empty_url).stdout == "Schema treadle is up to date.\n"
    assert run_treadle("migrate", "--sql", DATABASE_URL=empty_url).stdout == ""


def test_migrate_prints_sql(empty_url: str) -> None:
    printed = run_treadle("migrate", "--sql", "--schema", "other", "--database-url", empty_url)
    assert printed.exit_code == 0
    assert 'create schema if not exists "other"' in printed.stdout
    assert "treadle." not in printed.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["migrate", "--database-url", "postgresql://ada:secret@127.0.0.1:1/app"],
            1,
            "cannot reach PostgreSQL at 127.0.0.1:1/app",
        ),
        (
            ["migrate", "--database-url", "postgresql://[half"],
            1,
            "the database URL is invalid; expected postgresql://",
        ),
        (["migrate", "--database-url", "postgresql://127.0.0.1:1/app", "--schema", "a-b"], 1, "plain identifier"),
        (["migrate", "--no-such-option"], 2, "No such option"),
        (["no-such-command"], 2, "No such command"),
        (["bench", "--jobs", "1"], 2, "1 is not in the range"),
        (["worker"], 2, "Missing argument 'APP'. Name your application, such as shop.jobs:app, here, in TREADLE_APP"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], code: int, message: str) -> None:
    result = run_treadle(*arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["worker", "no_such_module:app"], 1, "there is no module 'no_such_module' here; expected module:app"),
        (
            ["worker", "tests.support.handlers:nope"],
            1,
            "has no application 'nope': found tests.support.handlers:app",
        ),
        (["worker", "tests.support.workers"], 1, "has no application 'app': it has no Treadle()"),
        (
            ["worker", "tests.support.broken_app"],
            1,
            "tests.support.broken_app cannot be imported: NameError: name 'nope' is not defined (",
        ),
        (
            ["worker", "tests.support.handlers:app", "--types", "nope"],
            1,
            "there is no job type 'nope' here; known types: block_past_the_deadline",
        ),
        (
            ["worker", "tests.support.handlers:app", "--lease", "soon"],
            1,
            "lease must be a duration such as",
        ),
        (
            ["worker", "tests.support.handlers:app", "--max-memory", "1MB"],
            1,
            "max_memory is 1MB, but the application uses",
        ),
    ],
)
def test_a_worker_that_cannot_start_says_why_in_one_sentence(arguments: list[str], code: int, message: str) -> None:
    """As a process: it starts others."""
    result = run_in_process(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr
