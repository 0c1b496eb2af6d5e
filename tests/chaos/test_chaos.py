"""The short form of `make chaos`: several storms at the same time, for a few seconds."""

from pathlib import Path

import pytest
from chaos.run import run
from chaos.storms import STORMS


@pytest.mark.parametrize(
    "names", [("kills", "lost-answers", "terminations", "slow"), ("stops", "cuts", "silence"), ("machines",)]
)
def test_a_short_storm_violates_no_guarantee(project_folder: Path, names: tuple[str, ...]) -> None:
    verdict = run([STORMS[name]() for name in names], 5, 7, project_folder / "run", fsync=False, pause=0.3, lease=3.0)
    assert verdict.violations == []
    assert verdict.counts["runs"] > 20
    assert verdict.counts["completed"] > 10
