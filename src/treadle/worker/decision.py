"""What a claimer does next, decided from what it knows. Nothing here waits, reads a clock or uses the database.

`decide` reads the state. The methods of the state change it: after a claim, after a check, and after a wait.
"""

import math
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import NamedTuple, TypeAlias

# While the worker may not start jobs, the claimer checks this often whether it may again.
FENCED_SECONDS = 0.05
# While jobs keep arriving, a claimer checks only this often whether more are due. A check takes as long as a claim; it
# also asks for the next notification, with which other workers get their share.
UNCHECKED_SECONDS = 0.05
# How long to wait when other transactions have locked all jobs that are due: this long the first time, then doubled.
LOCKED_SECONDS, MOST_DOUBLINGS = 0.004, 7


class Found(Enum):
    """What the last statement has shown."""

    UNKNOWN = auto()
    """There may be jobs to claim."""
    PROBABLY_NONE = auto()
    """There may be none: check before claiming."""
    TOO_FEW = auto()
    """A claim found jobs, but fewer than it asked for, and did not say when the next one is due."""
    NO_JOB = auto()
    """A claim found none, and did not say when the next one is due."""
    ONLY_LOCKED = auto()
    """Jobs are due, but a claim found none: other transactions have locked them."""
    NOTHING_DUE = auto()


class Told(IntEnum):
    """What a claimer was told since its last claim or wait. The highest counts."""

    NOTHING = auto()
    CHECK = auto()
    """A job may be left that another worker was told to look for, or that was committed late."""
    ROOM = auto()
    """A slot is free, or the limit has changed."""
    LOOK = auto()
    """There may be a job to claim."""


class Until(Enum):
    """What a wait ends with, unless its time ends before."""

    JOBS = auto()
    ROOM = auto()
    UNLOCKED = auto()
    ALLOWED = auto()


class Claim(NamedTuple):
    number: int
    listen: bool
    """Whether a claim that finds fewer says when the next job is due, and asks for the next notification."""


class Check(NamedTuple):
    """Ask when the next job is due."""


class GiveBack(NamedTuple):
    """Give back the jobs that were claimed ahead, and wait until one finishes."""


class Wait(NamedTuple):
    seconds: float
    until: Until


Action: TypeAlias = Claim | Check | GiveBack | Wait


@dataclass(slots=True)
class State:
    # How it is now; the claimer sets this before it decides.
    now: float = 0.0
    may_start: bool = True
    pause: float = 0.0
    """For how long it claims nothing, so that others can claim the suspects that it has given back."""
    room: int = 0
    """How many jobs to claim; 0 while enough are ready."""
    stalled_in: float = math.inf
    """In how many seconds the jobs that were claimed ahead are given back if none could be started."""
    poll: float = 1.0
    may_listen: bool = True

    # What it has learned.
    found: Found = Found.UNKNOWN
    next_due: float | None = None
    """With NOTHING_DUE: in how many seconds the next job is due; None: there is none."""
    locked_rounds: int = 0
    """Rounds in a row that found only jobs locked by other transactions."""
    unchecked_until: float = 0.0
    """Jobs became due while others were claimed: until then it claims without checks."""
    looking: bool = False
    """Since it waited for jobs or was told to look, it was not full and has not found nothing."""

    def claimed(self, number: int, asked: int) -> None:
        """A claim returned so many jobs, and did not say when the next one is due."""
        if number == asked:
            self.locked_rounds = 0
        is_enough = number > 0 and (number == asked or self.now < self.unchecked_until)
        self.found = Found.UNKNOWN if is_enough else Found.TOO_FEW if number else Found.NO_JOB

    def checked(self, next_due: float | None) -> None:
        """The next job is due in so many seconds; None: there is none."""
        is_due = next_due is not None and next_due <= 0
        some = self.found is Found.TOO_FEW
        self.unchecked_until = self.now + UNCHECKED_SECONDS if is_due and some else 0.0
        if not is_due:
            self.found, self.next_due, self.locked_rounds, self.looking = Found.NOTHING_DUE, next_due, 0, False
        elif self.found is Found.NO_JOB:
            self.found = Found.ONLY_LOCKED
            self.locked_rounds += 1
        else:
            self.found = Found.UNKNOWN

    def waited(self, wait: Wait, told: Told) -> None:
        """A wait has ended: the claimer was told something, or the time is over."""
        self.looking |= wait.until is Until.JOBS or told is Told.LOOK
        if told is Told.LOOK or wait.until is Until.UNLOCKED:
            self.found = Found.UNKNOWN
        elif wait.until is Until.JOBS:
            nothing_yet = told is Told.NOTHING and (self.next_due is None or self.next_due > wait.seconds)
            self.found = Found.PROBABLY_NONE if told is Told.CHECK or nothing_yet else Found.UNKNOWN


def decide(state: State) -> Action:
    match state.found:
        case Found.TOO_FEW | Found.NO_JOB:
            return Check()
        case Found.NOTHING_DUE:
            return Wait(state.poll if state.next_due is None else min(state.next_due, state.poll), Until.JOBS)
        case Found.ONLY_LOCKED:
            doubled = LOCKED_SECONDS * 2.0 ** min(state.locked_rounds - 1, MOST_DOUBLINGS)
            return Wait(min(doubled, state.poll), Until.UNLOCKED)
    if not state.may_start:
        return Wait(FENCED_SECONDS, Until.ALLOWED)
    if state.pause > 0:
        return Wait(state.pause, Until.ALLOWED)
    if state.room < 1:
        return GiveBack() if state.stalled_in <= 0 else Wait(state.stalled_in, Until.ROOM)
    if state.found is Found.PROBABLY_NONE:
        return Check()
    return Claim(state.room, state.may_listen and state.now >= state.unchecked_until)
