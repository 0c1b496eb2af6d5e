"""The short form of `python -m chaos.truth`: every surface shows the numbers of jobs that SQL counts."""

from pathlib import Path

import pytest
from chaos.truth import Errors, Load, compare
from chaos.truth_surfaces import Number, read

pytestmark = pytest.mark.own_database


def test_all_surfaces_show_what_sql_counts(own_url: str, tmp_path: Path) -> None:
    load = Load(finished=25_000, deep=50_000, waiting=20, a_second=20, concurrency=1)
    errors = compare(own_url, tmp_path, 3, load, seed=7)
    assert not errors.worst, errors
    assert set(errors.compared) == {"page", "top", "stats", "api", "metrics"}
    assert all(number > 15 for number in errors.compared.values()), errors.compared
    assert all(errors.estimate.keys() >= {name} for name in errors.compared), "there were estimates"


def test_a_wrong_number_is_noticed() -> None:
    errors = Errors()
    errors.compare("page", {("pending",): Number(100, exact=True)}, [{("pending",): 90}, {("pending",): 99}])
    assert (errors.exact["page"], errors.worst) == (1, [])
    errors.compare("page", {("pending",): Number(200, exact=True)}, [{("pending",): 90}, {("pending",): 99}])
    errors.compare("top", {("failed",): Number(94_000, exact=False)}, [{("failed",): 100_000}])
    errors.compare("top", {("failed",): Number(96_000, exact=False)}, [{("failed",): 100_000}])
    assert errors.worst == [
        "page shows 200 of pending, SQL 90 to 99",
        "top shows 94,000 of failed, SQL 100,000 to 100,000",
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7,000", Number(7000, exact=True)),
        ('50,000<span title="At least">+</span>', Number(50_000, exact=False)),
        ("<span>≈</span>300,000", Number(300_000, exact=False)),
    ],
)
def test_numbers_are_read_as_they_are_shown(text: str, number: Number) -> None:
    assert read(text) == number
