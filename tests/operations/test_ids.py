"""Jobs by the first or last digits of their id."""

from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from treadle import InvalidArgument, JobNotFound, Treadle
from treadle.db.queries import ids as id_queries
from treadle.operations import ids
from treadle.operations.ids import resolve_id


def insert(connection: Connection[Any], *texts: str) -> list[UUID]:
    made = [UUID(each) for each in texts]
    connection.execute("insert into jobs (id, job_type) select unnest(%s::uuid[]), 'a'", [made])
    return made


def fill(connection: Connection[Any], count: int) -> None:
    connection.execute("insert into jobs (job_type) select 'a' from generate_series(1, %s)", [count])


ONE = "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35"
TWO = "0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d36"


@pytest.mark.parametrize(
    "text", ["8e0c1d35", "8E0C1D35", "1d35", "2f6a-8e0c1d35", "9d4b-2f6a8e0c1d35", ONE, ONE.replace("-", "")]
)
def test_a_job_is_found_by_the_last_digits(connection: Connection[Any], app: Treadle, text: str) -> None:
    (one, _) = insert(connection, ONE, TWO)
    assert resolve_id(app.database, text) == one


def test_a_job_is_found_by_the_first_digits(connection: Connection[Any], app: Treadle) -> None:
    (one, _) = insert(connection, ONE, "0199b1c3-7a3e-7c51-9d4b-2f6a8e0c1d36")
    for text in ("0199b1c2", "0199B1C2-7", ONE[:-1]):
        assert resolve_id(app.database, text) == one


def test_candidates_are_listed_if_the_digits_are_ambiguous(connection: Connection[Any], app: Treadle) -> None:
    insert(connection, ONE, TWO, "8e0c1d35-0000-7000-8000-000000000000")
    with pytest.raises(
        InvalidArgument, match=f"ambiguous: several ids begin or end with it, such as {TWO}, {ONE}; give"
    ):
        resolve_id(app.database, "0199b1c2")
    with pytest.raises(InvalidArgument, match=f"such as 8e0c1d35-0000-7000-8000-000000000000, {ONE}"):
        resolve_id(app.database, "8e0c1d35")


@pytest.mark.parametrize(
    "text", ["", "1d3", "xyz1", "1d35'; --", "1%35", "____", "0" * 33, "1d35\0", "\uff11\uff44\uff13\uff15", "[0-9]{4}"]
)
def test_what_cannot_be_an_id_is_refused(app: Treadle, text: str) -> None:
    with pytest.raises(InvalidArgument, match="at least 4 of its first or last digits, got"):
        resolve_id(app.database, text)


def test_the_search_continues_with_older_jobs_and_says_what_it_covered(
    connection: Connection[Any], app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_queries, "EXAMINED_LIMIT", 40)
    (one,) = insert(connection, ONE)
    fill(connection, 200)
    assert resolve_id(app.database, "8e0c1d35") == one, "the oldest of all"
    monkeypatch.setattr(ids, "EXAMINED_LIMIT", 120)
    covered = r"the newest 120 jobs were examined\); it may have been pruned"
    with pytest.raises(JobNotFound, match=covered):
        resolve_id(app.database, "8e0c1d35")
    assert resolve_id(app.database, "0199b1c2") == one, "the first digits are a range of the primary key"


def test_few_digits_identify_a_job_only_if_all_were_examined(
    connection: Connection[Any], app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(connection, 10)
    newest = "fffffff0-0000-7000-8000-00000000beef"
    insert(connection, newest)
    assert resolve_id(app.database, "beef") == UUID(newest)
    monkeypatch.setattr(id_queries, "EXAMINED_LIMIT", 5)
    monkeypatch.setattr(ids, "EXAMINED_LIMIT", 5)
    with pytest.raises(InvalidArgument, match=f"beef may be ambiguous: {newest} .*; give at least 8 digits"):
        resolve_id(app.database, "beef")
    assert resolve_id(app.database, "0000beef") == UUID(newest)


def test_the_cost_is_bounded(connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_queries, "EXAMINED_LIMIT", 1000)
    query = id_queries.find_ids("8e0c1d35")

    def cost() -> int:
        connection.execute("vacuum analyze jobs")
        return buffers(connection, query.bound("treadle"), query.params)

    fill(connection, 2000)
    before = cost()
    fill(connection, 10_000)
    assert cost() <= 1.5 * before + 20
