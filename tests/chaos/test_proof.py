"""The short form of `make proof`: small models, and a few schedules on a server."""

from typing import Any

import pytest
from chaos.proof import keys, lanes, leases
from chaos.proof.__main__ import WITHOUT, replayed
from chaos.proof.explore import Model, explore
from chaos.proof.keys import Keys
from chaos.proof.lanes import Lanes

# Seconds each; make proof explores them.
SLOW = (
    lanes.RUNNING_NOT_SEEN,
    lanes.AFTER_SNAPSHOT_NOT_SEEN,
    lanes.SNAPSHOT_BEFORE_ID,
    leases.RECOVERY_RECHECKS,
    leases.COUNTED_FROM_REQUEST,
    leases.FENCED,
    keys.SEARCHED_AGAIN,
)


@pytest.mark.parametrize(
    "model",
    [
        Lanes(("enqueue", "tick", "tick"), crashes=False),
        Lanes(("release", "claim", "tick"), crashes=False),
        Lanes(("old enqueue", "tick", "tick", "tick"), rests=False, crashes=False),
        Keys(("enqueue", "enqueue", "claim", "cancel")),
    ],
    ids=lambda model: model.about,
)
def test_no_order_of_transactions_loses_or_blocks_a_job(model: Model[Any]) -> None:
    found = explore(model)
    assert (found.violation, found.trace) == (None, ())
    assert found.states > 1_000


@pytest.mark.parametrize(
    "model", [model for model in WITHOUT if model.without not in SLOW], ids=lambda model: str(model.without)
)
def test_a_model_without_a_guard_has_a_violation(model: Model[Any]) -> None:
    found = explore(model)
    assert found.violation is not None
    assert len(found.trace) > 3


def test_every_guard_of_a_model_is_tried() -> None:
    assert {model.without for model in WITHOUT} == {*keys.GUARDS, *lanes.GUARDS, *leases.GUARDS}


def test_the_server_does_what_the_model_does(own_url: str) -> None:
    assert list(replayed(own_url, seed=7, number=25)) == []
