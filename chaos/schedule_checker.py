"""Checks, from the ledger alone, that each time of each schedule was enqueued once.

The times are computed here, second by second, without the code that is being checked.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from chaos.ledger import Record

# A time is near a fault if it is this many seconds before it, or after it.
BEFORE, AFTER = 0.2, 1.0


class Beat(NamedTuple):
    """A schedule, and its times as the checker computes them: the seconds, in UTC, of which `due` is true."""

    expression: str
    due: Callable[[datetime], bool]
    timezone: str = "UTC"


BEATS = {f"every second {number}": Beat("every 1s", lambda _: True) for number in range(20)} | {
    "each second in Kathmandu": Beat("* * * * * *", lambda _: True, "Asia/Kathmandu"),
    "even seconds": Beat("*/2 * * * * *", lambda moment: moment.second % 2 == 0),
    "listed seconds": Beat(
        "1-40/3,45,50-59 * * * * *", lambda moment: moment.second in {*range(1, 41, 3), 45, *range(50, 60)}
    ),
    "every four seconds": Beat("3-59/4 * * * * *", lambda moment: moment.second % 4 == 3),
}


@dataclass
class Verdict:
    times: int = 0
    """Times of schedules for which a job ran."""
    doubled: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Times that no schedule has, and times whose job was told another time before than the one that there was."""
    again: int = 0
    """Runs that were not the first of their job: delivery is at-least-once."""
    late: list[float] = field(default_factory=list)
    """Seconds from each time until its job was enqueued."""
    late_in_calm: list[float] = field(default_factory=list)
    """The same, of the times that are not near a fault."""

    @property
    def problems(self) -> list[str]:
        return self.doubled + self.missed + self.wrong

    def __str__(self) -> str:
        return (
            f"{self.times:,} times: {len(self.doubled)} doubled, {len(self.missed)} missed, {len(self.wrong)} wrong "
            f"({self.again} runs repeated); enqueued after {_quantiles(self.late_in_calm)} with no fault near, "
            f"{_quantiles(self.late)} in all"
        )


def check(records: Iterable[Record], beats: Mapping[str, Beat], until: float) -> Verdict:
    """Each time from the first of its schedule up to `until`, in seconds since 1970, must have one job."""
    verdict = Verdict()
    jobs: dict[str, dict[int, dict[str, Record]]] = {name: defaultdict(dict) for name in beats}
    faults = []
    for record in records:
        if record["what"] == "fault":
            faults.append((record["begin"] - BEFORE, record["end"] + AFTER))
        # Those that are due later are not all there yet.
        if record["what"] == "beat" and (time := seconds(record["scheduled_for"])) <= until:
            if time != int(time):
                verdict.wrong.append(
                    f"{record['schedule']} has a job for {record['scheduled_for']}, a part of a second"
                )
            found = jobs[record["schedule"]][int(time)]
            verdict.again += record["id"] in found
            found.setdefault(record["id"], record)
    for name, by_time in jobs.items():
        if not by_time:
            verdict.missed.append(f"{name} never ran")
            continue
        _check_schedule(verdict, name, by_time, list(_times(beats[name], min(by_time), until)))
        for time, by_job in by_time.items():
            created = min(seconds(each["created"]) for each in by_job.values())
            verdict.late.append(created - time)
            if not any(begin <= time <= end for begin, end in faults):
                verdict.late_in_calm.append(created - time)
    return verdict


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _check_schedule(verdict: Verdict, name: str, by_time: dict[int, dict[str, Record]], times: list[int]) -> None:
    verdict.times += len(by_time)
    verdict.doubled += [
        f"{name} has {len(by_job)} jobs for {_shown(time)}: {', '.join(sorted(by_job))}"
        for time, by_job in by_time.items()
        if len(by_job) > 1
    ]
    verdict.missed += [f"{name} has no job for {_shown(time)}" for time in times if time not in by_time]
    befores = dict(zip(times, [None, *times], strict=False))
    for time, by_job in by_time.items():
        if time not in befores:
            verdict.wrong.append(f"{name} has a job for {_shown(time)}, which is not one of its times")
            continue
        for job, record in by_job.items():
            told = None if record["before"] is None else seconds(record["before"])
            if told != befores[time]:
                verdict.wrong.append(
                    f"{name}: job {job} for {_shown(time)} was told {record['before']} as the time before"
                )


def _times(beat: Beat, first: int, until: float) -> Iterator[int]:
    for second in range(first, math.floor(until) + 1):
        if beat.due(datetime.fromtimestamp(second, UTC)):
            yield second


def _shown(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}"


def _quantiles(late: list[float]) -> str:
    if not late:
        return "(no times)"
    ordered = sorted(late)
    p50, p99 = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000 for share in (0.5, 0.99))
    return f"p50 {p50:,.0f} ms, p99 {p99:,.0f} ms, at most {ordered[-1] * 1000:,.0f} ms ({len(ordered):,} times)"
