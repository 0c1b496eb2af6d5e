"""Schedules of the model of lanes, performed on a server: the outcome must be one that the model has.

A statement cannot be stopped in the middle, so a transaction has two steps here: its statement, and its end.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from psycopg import Connection

from chaos.proof.lanes import PROGRAMS, Lanes, State

KINDS = ("enqueue", "release", "claim", "late tick", "late tick", "late tick")
ENDS = {"enqueue": ("commit", "roll back"), "release": ("commit", "roll back"), "claim": ("commit", "crash")}
STATEMENTS = {
    "enqueue": "select treadle.enqueue(%(type)s)",
    "release": "select treadle.release_job(%(job)s)",
    "claim": "select id from treadle.claim_job_batch('w', array[%(type)s], 1)",
    "late tick": "select treadle.tick('0')",
}
# When the last tick was: long ago, so that a tick waits for no other one, or now, so that a claim makes none.
LONG_AGO = "select setval('treadle.tick_clock', 0)"
NOW = "select setval('treadle.tick_clock', (extract(epoch from clock_timestamp()) * 1000000)::bigint)"


class Step(NamedTuple):
    nth: int
    end: str | None = None
    """How the transaction ends; None: its statement."""


class Outcome(NamedTuple):
    claimed: bool
    left: int
    """How many jobs a claim finds when all transactions have ended."""


def schedules(seed: int, number: int) -> Iterator[tuple[Step, ...]]:
    """Random orders of the statements and ends of all transactions. In half of them the jobs are committed last,
    because late commits are the difficult ones."""
    chance = random.Random(seed)
    for _ in range(number):
        order = [nth for nth in range(len(KINDS)) for _ in range(2)]
        chance.shuffle(order)
        if chance.random() < 0.5:
            for nth in (0, 1):
                order.reverse()
                order.remove(nth)  # its last step
                order.reverse()
                order.append(nth)
        begun: set[int] = set()
        steps = []
        for nth in order:
            ends = ENDS.get(KINDS[nth], ("commit",))
            steps.append(Step(nth, chance.choice(ends) if nth in begun else None))
            begun.add(nth)
        yield tuple(steps)


def possible(schedule: tuple[Step, ...]) -> set[Outcome]:
    """What can happen in the model."""
    model = Lanes(KINDS)
    states = {(model.first(), False)}
    for step in schedule:
        states = {after for before in states for after in _after(model, *before, step)}
    return {Outcome(claimed, _left(state)) for state, claimed in states if model.violation(state) is None}


def _after(model: Lanes, state: State, claimed: bool, step: Step) -> Iterator[tuple[State, bool]]:
    process = state.processes[step.nth]
    if process.step < 0:
        yield state, claimed  # it found nothing to do
        return
    program = PROGRAMS[process.kind]
    if step.end is not None:
        for name, after in program(model, state, step.nth, process):
            if name == step.end:
                yield after, claimed
        return
    waiting = [(state, claimed)]
    while waiting:
        current, took = waiting.pop()
        process = current.processes[step.nth]
        following = list(program(model, current, step.nth, process)) if process.step >= 0 else []
        if not following or any(name == "commit" for name, _ in following):
            yield current, took
        for name, after in following:
            if name not in ("commit", "roll back", "crash"):
                waiting.append((after, took or name == "claim"))


def _left(state: State) -> int:
    def exists(xid: int) -> bool:
        return 0 < xid < state.next_id and xid not in state.aborted

    return sum(exists(job.by) and not exists(job.claimed_by) for job in state.jobs)


def perform(
    connection: Connection[Any], transactions: list[Connection[Any]], schedule: tuple[Step, ...], job_type: str
) -> Outcome:
    """Perform the schedule in a lane of its own, with a connection for each transaction."""
    job = _prepare(connection, job_type)
    claimed = False
    for step in schedule:
        transaction = transactions[step.nth]
        if step.end is None:
            kind = KINDS[step.nth]
            connection.execute(LONG_AGO if kind == "late tick" else NOW)
            rows = transaction.execute(STATEMENTS[kind], {"type": job_type, "job": job}).fetchall()
            claimed = claimed or (kind == "claim" and bool(rows))
        elif step.end == "commit":
            transaction.commit()
        else:
            transaction.rollback()
    connection.execute(LONG_AGO)  # the claim makes a tick first
    left = connection.execute("select from treadle.claim_job_batch('w', array[%s], 10)", [job_type]).fetchall()
    return Outcome(claimed, len(left))


def _prepare(connection: Connection[Any], job_type: str) -> Any:
    """A claimed job, and a floor from long ago. Ticks do not search lanes from their beginning: they must know from
    where on."""
    connection.execute("select treadle.enqueue(%s)", [job_type])
    found = connection.execute("select id from treadle.claim_job_batch('w', array[%s], 1)", [job_type]).fetchone()
    assert found
    connection.execute("update treadle.jobs set run_at = run_at - interval '2 hours' where id = %s", [found[0]])
    connection.execute("select treadle.tick('0')")
    connection.execute("update treadle.ticks set sweep_after = 'infinity'")
    connection.execute("delete from treadle.floors where job_type = %s", [job_type])
    connection.execute(
        """insert into treadle.floors (queue, job_type, priority, floor, xid)
        values ('default', %s, 100, now() - interval '1 hour', pg_current_xact_id())""",
        [job_type],
    )
    for _ in range(2):
        connection.execute(LONG_AGO)
        connection.execute("select treadle.tick('0')")
    return found[0]
