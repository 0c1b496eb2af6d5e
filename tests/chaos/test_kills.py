"""The short form of `make kills`: effects happen exactly once, no matter how often processes are killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.kills import Killer

pytestmark = pytest.mark.own_database


@pytest.fixture
def killer(own_url: str, tmp_path: Path) -> Iterator[Killer]:
    killer = Killer(own_url, tmp_path, seed=7)
    yield killer
    killer.close()


def test_steps_and_debits_happen_exactly_once_under_kills(killer: Killer) -> None:
    verdict = killer.steps_and_debits(kills=4, power_cuts=1)
    assert verdict.problems == []
    assert verdict.kills >= 4


def test_an_import_that_is_killed_repeatedly_continues_at_its_checkpoint(killer: Killer) -> None:
    more, kills = killer.one_import(rows=2_000, seconds=0.0002, every=0.3)
    assert kills >= 1
    assert more < 1.3
