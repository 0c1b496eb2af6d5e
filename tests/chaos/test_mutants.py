"""The guards that chaos/mutants.py removes: each one exists, and so does the test that must fail without it."""

import re
from functools import cache
from pathlib import Path

from chaos.guards import MUTANTS, Mutant
from chaos.storms import STORMS

ROOT = Path(__file__).parents[2]


@cache
def read(path: str) -> str:
    return (ROOT / path).read_text()


def test_every_guard_and_its_test_exist() -> None:
    assert [str(mutant.guard) for mutant in MUTANTS if not exists(mutant)] == []


def exists(mutant: Mutant) -> bool:
    if mutant.text not in read(mutant.file) or mutant.text == mutant.replacement:
        return False
    if mutant.red.startswith("storm "):
        return set(mutant.red.split()[1:]) <= STORMS.keys()
    path, _, names = mutant.red.partition(" -k ")
    return all(re.search(rf"def {name}", read(path)) for name in names.split(" or "))
