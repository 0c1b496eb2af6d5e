"""Every transition of a job, made by three connections with open transactions and compared with a model (the oracle).

    make model [SECONDS=600]    runs longer than in the test suite

Hypothesis prints the steps of the shortest failure, and the line that reproduces it.
"""

import os
import time

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.model_steps import Queue
from treadle import JobQueue, Once

# The test suite always runs the same few examples, and does not search for a shorter failure: that takes minutes.
SECONDS = float(os.environ.get("TREADLE_MODEL_SECONDS", "0"))
EXAMPLES, STEPS = 10, 60


@pytest.mark.timeout(600)  # many statements: 8 s of an idle core, minutes of a busy one
def test_every_transition_matches_the_oracle(own_url: str) -> None:
    machine = type("Machine", (Queue,), {"url": own_url})
    how = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=True,
        derandomize=not SECONDS,
        phases=tuple(Phase) if SECONDS else (Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    end = time.monotonic() + SECONDS
    while True:
        run_state_machine_as_test(machine, settings=how)
        if time.monotonic() > end:
            break


def test_an_enqueue_waits_for_a_transaction_that_added_and_deleted_its_unique_key(own_url: str) -> None:
    """Written out because it is rare: no one sees the job, and its unique key is in use until that transaction ends."""
    queue: Queue = type("Machine", (Queue,), {"url": own_url})()
    try:
        queue.begin_or_end(0, "commit")
        queue.enqueue(0, "a", 100, None, "u", later=False, max_attempts=1)
        queue.operate(0, 0, "delete")
        with queue.as_actor(1, certain=True, possible=True) as connection:
            JobQueue(connection).enqueue("a", {}, unique=Once(key="u"))
        queue.enqueue(1, "a", 100, None, "u", later=False, max_attempts=1)
        queue.the_table_matches_the_oracle()
    finally:
        queue.teardown()
