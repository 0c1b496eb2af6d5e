"""The short form of `make chaos`: several storms at the same time, for a few seconds."""

import subprocess
from pathlib import Path

import pytest
from chaos.run import run
from chaos.storms import STORMS

# How the ledger names the faults of each storm, or the beginning of the names.
FAULTS = {
    "kills": ("kill of a ",),
    "lost-answers": ("reply lost",),
    "terminations": ("terminated backends",),
    "slow": ("slow",),
    "stops": ("stop of a ",),
    "cuts": ("connections cut",),
    "silence": ("existing connections black-holed", "network down"),
    "machines": ("loss of a machine",),
    "logging": ("logging raises in", "close stderr in"),
    "parts": ("cancel in", "fail in", "hang in"),
    "event-loop": ("cancel all tasks", "stop the loop", "exit late"),
    "deploys": ("deploy of a limit", "limit "),
    "plain-sql": ("claims in plain SQL", "claim by an update"),
    "operators": ("operator: ", "pause", "concurrency changed"),
    "power-loss": ("loss of power",),
}
OUTSIDE = ("kills", "lost-answers", "terminations", "slow")
INSIDE = ("logging", "parts", "event-loop", "deploys", "plain-sql", "operators", "power-loss")


@pytest.mark.parametrize(
    ("names", "pause"),
    [
        (INSIDE, 0.3),
        pytest.param(OUTSIDE, 0.3, marks=pytest.mark.long),
        # The producers are often cut off, so they enqueue more in between.
        pytest.param(("stops", "cuts", "silence", "machines"), 0.2, marks=pytest.mark.long),
    ],
)
def test_a_short_storm_violates_no_guarantee(
    project_folder: Path, initialized_server_folder: Path, names: tuple[str, ...], pause: float
) -> None:
    folder = project_folder / "run"
    folder.mkdir(mode=0o711)
    subprocess.run(["cp", "-a", initialized_server_folder, folder / "server"], check=True)
    storms = [STORMS[name]() for name in names]
    # Without fsync, nothing is promised for a loss of power; in memory it costs nothing.
    verdict = run(storms, 2.5, 7, folder, fsync="power-loss" in names, pause=pause, lease=2.0, runs=30)
    assert verdict.violations == []
    assert verdict.counts["runs"] > 20
    assert verdict.counts["completed"] > 10
    for name in names:
        assert any(fault.startswith(FAULTS[name]) for fault in verdict.counts), f"no fault of {name} was injected"
