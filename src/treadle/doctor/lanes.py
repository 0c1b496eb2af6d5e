"""Lanes that hold due jobs which nobody takes."""

from collections.abc import Sequence

from treadle.doctor.facts import DueLane, Server, Worker
from treadle.doctor.finding import Case, Finding, Level, level_of, most, ok
from treadle.doctor.telling import lines, literal
from treadle.words.changes import Pause
from treadle.words.phrases import span


def judge_lanes(
    case: Case, workers: Sequence[Worker], lanes: Sequence[DueLane], pauses: Sequence[Pause]
) -> list[Finding]:
    live = [each for each in workers if each.live]
    # Who sends heartbeats by hand does not say which types it takes.
    by_hand = any(each.job_types is None for each in live)
    unserved = [
        each
        for each in lanes
        if each.due >= case.limits.unserved[0]
        and not any(serves(one, each) for one in live)
        and not any(stops(one, each) for one in pauses)
    ]
    if not unserved:
        return [ok("unserved_lanes", "Every lane with due jobs has a worker.")]
    types = sorted({each.job_type for each in unserved})
    known = sorted({name for each in live for name in each.job_types or ()})
    level = most(*(level_of(each.due, *case.limits.unserved) for each in unserved))
    return [
        Finding(
            "unserved_lanes",
            Level.NOTE if by_hand else level,
            "Jobs are due, and no worker that lives takes them." if live else "Jobs are due, and no worker lives.",
            lines([_lane(each) for each in unserved])
            + (f"\nknown to workers: {', '.join(known[:20])}" if known else "")
            + ("\nsomebody claims by hand, of types that are not known" if by_hand else ""),
            f"Start a worker whose application knows {', '.join(types[:5])}: treadle worker module:app\n"
            "If a type was renamed: @app.job(aliases=[…]). If nobody wants these jobs: cancel them.",
        )
    ]


def judge_pauses(case: Case, server: Server, lanes: Sequence[DueLane], pauses: Sequence[Pause]) -> list[Finding]:
    piles = [(pause, [each for each in lanes if stops(pause, each)]) for pause in pauses]
    levels = [level_of(max((each.due for each in pile), default=-1), *case.limits.paused) for _, pile in piles]
    if not pauses or most(*levels) is Level.OK:
        return [ok("paused_lanes", "No due jobs pile up behind a pause.")]
    bad = [(pause, pile) for (pause, pile), level in zip(piles, levels, strict=True) if level is not Level.OK]
    return [
        Finding(
            "paused_lanes",
            most(*levels),
            "Due jobs pile up behind a pause.",
            lines([_pause(pause, server, pile) for pause, pile in bad]),
            "Resume what was forgotten: "
            + " ".join(f"select {case.schema}.resume({_arguments(pause)});" for pause, _ in bad),
        )
    ]


def stops(pause: Pause, lane: DueLane) -> bool:
    return pause.job_type in (None, lane.job_type) and pause.queue in (None, lane.queue)


def _pause(pause: Pause, server: Server, pile: Sequence[DueLane]) -> str:
    what = pause.job_type or "every type"
    where = f" in queue {pause.queue}" if pause.queue else ""
    long = span(max(0.0, (server.now - pause.paused_at).total_seconds()))
    why = f": {pause.reason}" if pause.reason else ""
    due = "; ".join(_lane(each) for each in pile[:3])
    return f"{what}{where}, paused {long} ago by {pause.paused_by or 'somebody'}{why} ({due})"


def _arguments(pause: Pause) -> str:
    named = {"p_job_type": pause.job_type, "p_queue": pause.queue}
    return ", ".join(f"{name} => {literal(value)}" for name, value in named.items() if value is not None)


def serves(worker: Worker, lane: DueLane) -> bool:
    return lane.job_type in (worker.job_types or ()) and (worker.queues is None or lane.queue in worker.queues)


def _lane(lane: DueLane) -> str:
    queue = "" if lane.queue == "default" else f" in queue {lane.queue}"
    return f"{lane.job_type}{queue}, priority {lane.priority}: due for {span(lane.due)}"
