"""The guards that chaos/mutants.py removes: each one exists, and so does the test that must fail without it."""

import re
from pathlib import Path

import pytest
from chaos.guards import MUTANTS, Mutant
from chaos.storms import STORMS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.guard))
def test_a_guard_and_its_test_exist(mutant: Mutant) -> None:
    assert mutant.text in (ROOT / mutant.file).read_text()
    assert mutant.text != mutant.replacement
    if mutant.red.startswith("storm "):
        assert set(mutant.red.split()[1:]) <= STORMS.keys()
        return
    path, _, names = mutant.red.partition(" -k ")
    module = (ROOT / path).read_text()
    assert all(re.search(rf"def {name}", module) for name in names.split(" or "))
