"""No message shows a part of a database URL that may belong to the password, whatever the URL looks like."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from tests.support.commands import run_treadle
from tests.support.workers import WorkerProgram, until
from treadle import Connections, DatabaseUnreachable, InvalidArgument, JobQueue, Treadle, TreadleError, migrate
from treadle.db.setup_connection import connect
from treadle.db.url import described, hosts, patient, reason_of, resolve

PLACE = "127.0.0.1:1/app"
# In each of them, the password consists of hun, ter2 and special characters. libpq reads some of it as another part.
UNESCAPED = [
    f"postgresql://ada:hun/ter2@{PLACE}",
    f"postgresql://ada:hun@ter2@{PLACE}",
    f"postgresql://ada:@ter2@{PLACE}",
    f"postgresql://ada:12/ter2@{PLACE}",
    f"postgresql://ada:12/ter2?sslmode=hun@{PLACE}",
    f"postgresql://ada:12,ter2/hun@{PLACE}",
    f"postgresql://ada:hun,ter2/@{PLACE}",
    f"postgresql://ada:hun/@ter2@{PLACE}",
    f"postgresql://ada:hun%ter2@{PLACE}",
    f"postgresql://ada:hun ter2@{PLACE}",
    f"postgresql://ada:://hun/ter2@{PLACE}",
    f"postgresql://ada@hun:12@ter2@{PLACE}",
    f"postgresql://ada@127.0.0.1:hunter2/{PLACE}",
    "postgresql://ada:hun/ter2",
    "postgresql://ada:hunter2",
    "postgresql://ada:ter2\0x@127.0.0.1:1/app",
    f"postgresql://{PLACE}?password=hun&ter2",
    f"postgresql://{PLACE}?passwd=hunter2",
    f"postgresql://{PLACE}/postgresql://ada:hunter2@db",
    f"ada:hunter2@{PLACE}",
    f"postgres:/ada:hunter2@{PLACE}",
    f"postgresql+unknown://ada:hunter2@{PLACE}",
    "host=127.0.0.1 port=1 password=hun ter2",
    "host=127.0.0.1 port=1 password=hun ter2=x",
    "host=127.0.0.1 port=1 password='hun'ter2 user=ada",
    "host=127.0.0.1 port=1 password='hunter2",
    "host=ada:hunter2 port=1",
    "host=127.0.0.1 port=hunter2",
    "host=127.0.0.1 port=1 dbname=postgresql://ada:hunter2@db/app",
]


def assert_nothing_is_shown(text: str) -> None:
    assert "hun" not in text
    assert "ter2" not in text


def message(url: str) -> str:
    """What a program sees."""
    try:
        JobQueue(url).counts()
    except TreadleError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("it was reached")


@pytest.mark.parametrize("url", UNESCAPED)
def test_an_exception_shows_no_part_of_an_unescaped_password(url: str) -> None:
    shown = message(url)
    assert_nothing_is_shown(shown)
    assert "percent-encode" in shown
    assert "%2F" in shown


@pytest.mark.parametrize("function", [described, hosts, patient, migrate])
@pytest.mark.parametrize(
    "url", [UNESCAPED[0], UNESCAPED[8], "postgresql://ada:hun%a1ter2@db", "host=db password=hun ter2"]
)
def test_functions_that_are_given_an_invalid_url_directly_do_not_quote_it(
    function: Callable[[str], object], url: str
) -> None:
    with pytest.raises(InvalidArgument, match=r"^the database URL is invalid") as caught:
        function(url)
    assert_nothing_is_shown(str(caught.value))


@pytest.mark.parametrize("url", UNESCAPED[:4])
def test_commands_show_no_part_of_an_unescaped_password(url: str) -> None:
    result = run_treadle("jobs", "--database-url", url)
    assert result.exit_code == 1
    assert_nothing_is_shown(result.output)
    assert_nothing_is_shown(result.stderr)


def test_a_worker_shows_no_part_of_an_unescaped_password(tmp_path: Path) -> None:
    worker = WorkerProgram(UNESCAPED[3], tmp_path / "worker.log", app="tests.support.handlers:app")
    try:
        until(lambda: "the given database URL" in worker.log.read_text())
    finally:
        worker.kill_all()
    assert_nothing_is_shown(worker.log.read_text())


def test_a_url_for_listening_is_checked_as_well() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Treadle(f"postgresql://{PLACE}", connections=Connections(listen_url=UNESCAPED[0]))
    assert_nothing_is_shown(str(caught.value))


@given(st.text(st.sampled_from("ab1/@:?#%&=,[]' .-\\"), max_size=12))
def test_no_password_is_shown_however_it_is_written(middle: str) -> None:
    for url in (f"postgresql://ada:12{middle}ter2@db/app", f"host=db password=12{middle}ter2"):
        try:
            shown = described(url)
        except InvalidArgument as error:
            shown = str(error)
        # Only a name that is given as such is shown: host=db password=12 host=ter2.
        assert "ter2" not in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:hunter2@db.example.org:5432/films", "db.example.org:5432/films"),
        ("postgresql://ada:h%2Fun%40ter2@db/films", "db/films"),
        ("postgresql://ada%40corp:hunter2@db_1/films-2.old", "db_1/films-2.old"),
        ("postgresql://ada:hun?ter2#@db/films", "db/films"),
        ("postgresql://ada@a:1,b:2/films", "a:1 or b:2/films"),
        ("postgresql://ada@[::1]:5432/films", "::1:5432/films"),
        ("postgresql:///films?host=/var/run/postgresql", "/var/run/postgresql/films"),
        ("postgresql://%2Fsrv%2Fmy%20socket/films", "/srv/my socket/films"),
        ("host=db port=5432 dbname=films user=ada password='hun ter2'", "db:5432/films"),
        ("dbname=films", "the local socket/films"),
        ("", "the local socket"),
    ],
)
def test_host_port_and_database_are_shown(url: str, shown: str) -> None:
    assert described(url) == shown


def test_the_reason_is_shown_without_the_secrets_of_the_url() -> None:
    error = psycopg.OperationalError('connection failed: option "p" of "hunter2" and "hunter3"\nis invalid')
    url = "postgresql://ada:hunter2@db/films?sslpassword=hunter3"
    assert reason_of(error, url) == 'option "p" of "********" and "********" is invalid'


@pytest.mark.parametrize("password", ["p", "ada", "db"])
def test_a_short_password_or_one_like_the_user_does_not_garble_the_reason(password: str) -> None:
    """A masked word in a sentence that everybody knows would reveal the password."""
    error = psycopg.OperationalError('password authentication failed for user "ada" on "db"')
    assert reason_of(error, f"postgresql://ada:{password}@db/films") == str(error)


def test_the_reason_that_a_server_is_unreachable_is_still_shown() -> None:
    with pytest.raises(DatabaseUnreachable, match=r"^cannot reach PostgreSQL at 127\.0\.0\.1:1/app: .*refused"):
        JobQueue(f"postgresql://ada:hunter2@{PLACE}").counts()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg_async", "psycopg2", "psycopg2cffi", "pg8000"])
@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_the_driver_in_a_url_of_sqlalchemy_is_ignored(
    driver: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"{scheme}+{driver}://ada:x@db:5433/shop")
    assert resolve(None).url == "postgresql://ada:x@db:5433/shop"
    assert described(f"{scheme}+{driver}://ada:x@db:5433/shop") == "db:5433/shop"


def test_a_url_with_a_driver_connects(server_url: str) -> None:
    parts = conninfo_to_dict(server_url)
    where = f"?host={parts['host']}&port={parts['port']}"
    url = f"postgresql+asyncpg://{parts['user']}@/{parts.get('dbname') or 'postgres'}{where}"
    with connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("url", ["", " "])
def test_an_empty_url_is_refused(url: str) -> None:
    for make in (Treadle, JobQueue):
        with pytest.raises(InvalidArgument, match="the database URL is empty"):
            make(url)
