"""What a claimer does next: a table, without a database."""

import math

import pytest

from treadle.worker.decision import (
    FENCED_SECONDS,
    LOCKED_SECONDS,
    UNCHECKED_SECONDS,
    Action,
    Check,
    Claim,
    Found,
    GiveBack,
    State,
    Told,
    Until,
    Wait,
    decide,
)

JOBS, ROOM, ALLOWED, UNLOCKED = Until.JOBS, Until.ROOM, Until.ALLOWED, Until.UNLOCKED


@pytest.mark.parametrize(
    ("state", "action"),
    [
        # There may be jobs.
        (State(room=5), Claim(5, listen=True)),
        (State(room=5, may_listen=False), Claim(5, listen=False)),
        (State(room=5, now=1.0, unchecked_until=1.1), Claim(5, listen=False)),
        (State(room=5, now=1.2, unchecked_until=1.1), Claim(5, listen=True)),
        (State(room=5, found=Found.PROBABLY_NONE), Check()),
        # It may not claim.
        (State(room=5, may_start=False), Wait(FENCED_SECONDS, ALLOWED)),
        (State(room=5, pause=0.2), Wait(0.2, ALLOWED)),
        (State(room=5, may_start=False, pause=0.2), Wait(FENCED_SECONDS, ALLOWED)),
        # There is no room.
        (State(room=0), Wait(math.inf, ROOM)),
        (State(room=0, found=Found.PROBABLY_NONE), Wait(math.inf, ROOM)),
        (State(room=0, stalled_in=0.3), Wait(0.3, ROOM)),
        (State(room=0, stalled_in=0.0), GiveBack()),
        (State(room=5, stalled_in=0.0), Claim(5, listen=True)),
        # A claim found fewer jobs than it asked for: a check follows even if there is no more room.
        (State(room=5, found=Found.TOO_FEW), Check()),
        (State(room=0, found=Found.TOO_FEW), Check()),
        (State(room=5, found=Found.NO_JOB), Check()),
        # No job is due.
        (State(found=Found.NOTHING_DUE, poll=7.0), Wait(7.0, JOBS)),
        (State(found=Found.NOTHING_DUE, poll=7.0, next_due=3.0), Wait(3.0, JOBS)),
        (State(found=Found.NOTHING_DUE, poll=7.0, next_due=30.0), Wait(7.0, JOBS)),
        (State(found=Found.NOTHING_DUE, poll=7.0, room=5), Wait(7.0, JOBS)),
        # Other transactions have locked what is due.
        (State(found=Found.ONLY_LOCKED, locked_rounds=1, poll=7.0), Wait(LOCKED_SECONDS, UNLOCKED)),
        (State(found=Found.ONLY_LOCKED, locked_rounds=3, poll=7.0), Wait(4 * LOCKED_SECONDS, UNLOCKED)),
        (State(found=Found.ONLY_LOCKED, locked_rounds=99, poll=7.0), Wait(128 * LOCKED_SECONDS, UNLOCKED)),
        (State(found=Found.ONLY_LOCKED, locked_rounds=99, poll=0.1), Wait(0.1, UNLOCKED)),
    ],
)
def test_it_decides_what_to_do(state: State, action: Action) -> None:
    assert decide(state) == action


@pytest.mark.parametrize(
    ("state", "number", "found"),
    [
        (State(), 5, Found.UNKNOWN),
        (State(), 3, Found.TOO_FEW),
        (State(now=1.0, unchecked_until=1.1), 3, Found.UNKNOWN),
        (State(), 0, Found.NO_JOB),
        (State(now=1.0, unchecked_until=1.1), 0, Found.NO_JOB),
    ],
)
def test_it_has_claimed_some_of_five_jobs(state: State, number: int, found: Found) -> None:
    state.claimed(number, 5)
    assert state.found is found


@pytest.mark.parametrize("next_due", [None, 3.0])
@pytest.mark.parametrize("found", [Found.PROBABLY_NONE, Found.TOO_FEW, Found.NO_JOB])
def test_a_check_finds_that_nothing_is_due(found: Found, next_due: float | None) -> None:
    state = State(found=found, locked_rounds=3, looking=True, unchecked_until=5.0)
    state.checked(next_due)
    assert state == State(found=Found.NOTHING_DUE, next_due=next_due)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # More became due while it claimed: it goes on for a moment without checks.
        (State(found=Found.TOO_FEW, now=1.0), State(now=1.0, unchecked_until=1.0 + UNCHECKED_SECONDS)),
        (State(found=Found.PROBABLY_NONE, now=1.0), State(now=1.0)),
        (State(found=Found.NO_JOB, locked_rounds=1), State(found=Found.ONLY_LOCKED, locked_rounds=2)),
    ],
)
def test_a_check_finds_that_jobs_are_due(before: State, after: State) -> None:
    before.checked(-0.5)
    assert before == after


def test_a_full_claim_ends_the_rounds_that_found_only_locked_jobs() -> None:
    state = State(locked_rounds=3)
    state.claimed(5, 5)
    assert state.locked_rounds == 0


@pytest.mark.parametrize(
    ("next_due", "wait", "told", "found"),
    [
        # The poll: there is probably no job, unless one has become due.
        (None, Wait(7.0, JOBS), Told.NOTHING, Found.PROBABLY_NONE),
        (9.0, Wait(7.0, JOBS), Told.NOTHING, Found.PROBABLY_NONE),
        (3.0, Wait(3.0, JOBS), Told.NOTHING, Found.UNKNOWN),
        (3.0, Wait(3.0, JOBS), Told.CHECK, Found.PROBABLY_NONE),
        (None, Wait(7.0, JOBS), Told.ROOM, Found.UNKNOWN),
        (None, Wait(7.0, JOBS), Told.LOOK, Found.UNKNOWN),
        (None, Wait(0.004, UNLOCKED), Told.NOTHING, Found.UNKNOWN),
    ],
)
def test_a_wait_for_jobs_ends(next_due: float | None, wait: Wait, told: Told, found: Found) -> None:
    state = State(found=Found.NOTHING_DUE, next_due=next_due)
    state.waited(wait, told)
    assert state.found is found


@pytest.mark.parametrize("until", [ROOM, ALLOWED])
def test_other_waits_change_nothing_unless_there_may_be_a_job(until: Until) -> None:
    state = State(found=Found.PROBABLY_NONE)
    state.waited(Wait(1.0, until), Told.ROOM)
    assert state == State(found=Found.PROBABLY_NONE)
    state.waited(Wait(1.0, until), Told.LOOK)
    assert state == State(looking=True)


@pytest.mark.parametrize(
    ("until", "told", "looking"),
    [(JOBS, Told.NOTHING, True), (ROOM, Told.LOOK, True), (ROOM, Told.ROOM, False), (UNLOCKED, Told.NOTHING, False)],
)
def test_it_is_to_look_for_jobs(until: Until, told: Told, looking: bool) -> None:
    state = State()
    state.waited(Wait(1.0, until), told)
    assert state.looking is looking
