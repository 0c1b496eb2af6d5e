"""Every transition of a job, by three connections in turn with transactions that stay open, against an oracle.

    make model [SECONDS=600]    for longer; the suite has a short form

Hypothesis prints the steps of the shortest failure, and the line that repeats it.
"""

import os
import time

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.model_steps import Queue
from treadle import JobQueue

# In the suite the same few examples every time, and no search for a smaller one: that takes minutes.
SECONDS = float(os.environ.get("TREADLE_MODEL_SECONDS", "0"))
EXAMPLES, STEPS = 20, 60


@pytest.mark.timeout(600)  # many statements: eight seconds of a core, minutes of a starved one
def test_every_transition_is_as_the_oracle_says(own_url: str) -> None:
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


def test_what_another_transaction_added_and_deleted_again_is_waited_for(own_url: str) -> None:
    """By hand, since it is rare: nobody sees the job, and its unique key is taken until that transaction ends."""
    queue: Queue = type("Machine", (Queue,), {"url": own_url})()
    try:
        queue.begin_or_end(0, "commit")
        queue.enqueue(0, "a", 100, None, "u", later=False, max_attempts=1)
        queue.operate(0, 0, "delete")
        with queue.acting(1, certain=True, possible=True) as connection:
            JobQueue(connection).enqueue("a", {}, unique="u")
        queue.enqueue(1, "a", 100, None, "u", later=False, max_attempts=1)
        queue.the_table_is_as_the_oracle_says()
    finally:
        queue.teardown()
