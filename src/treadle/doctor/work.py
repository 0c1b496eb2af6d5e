"""The work itself: who does it, and what goes wrong with it."""

from collections.abc import Sequence

from treadle.doctor.facts import Crashing, Head, Stray, Tick, Worker
from treadle.doctor.finding import Case, Finding, Level, level_of, most, ok
from treadle.doctor.telling import lines, several
from treadle.words.phrases import span

# A heartbeat from the future by less than this is the clocks' own jitter.
JITTER = 1.0


def judge_workers(case: Case, workers: Sequence[Worker]) -> list[Finding]:
    return [_silent(case, workers), _old(case, workers), _clocks(case, workers)]


def _silent(case: Case, workers: Sequence[Worker]) -> Finding:
    unburied = [
        each
        for each in workers
        if each.lease is not None and each.lost is None and each.seen > each.lease + case.limits.silence
    ]
    holding = [each for each in workers if each.lost is not None and each.lost > case.limits.silence and each.holds]
    if not unburied and not holding:
        return ok("silent_workers", "No worker has gone silent without being noticed.")
    detail = [f"{_who(each)}: silent for {span(each.seen)}" for each in unburied]
    detail += [f"{_who(each)}: given up {span(each.lost or 0)} ago, and still has jobs" for each in holding]
    live = any(each.live and each.lease is not None for each in workers)
    return Finding(
        "silent_workers",
        Level.WARNING,
        "Workers went silent, and their jobs were not given to others.",
        lines(detail),
        "A worker that lives does this by itself; see what its log says, and who locks these jobs."
        if live
        else "No worker is left to do it: start one (treadle worker …), or by hand: "
        "select * from treadle.recover_lost_workers();".replace("treadle.rec", f"{case.schema}.rec"),
    )


def _old(case: Case, workers: Sequence[Worker]) -> Finding:
    live = [each for each in workers if each.live]
    other = [each for each in live if each.version not in (None, case.version)]
    before = [each for each in live if each.outdated and each not in other]
    if not other and not before:
        return ok("old_workers", "All workers are of this version.")
    detail = [f"{_who(each)}: version {each.version}, here it is {case.version}" for each in other]
    detail += [f"{_who(each)}: began {span(each.started)} ago, before the schema was last changed" for each in before]
    return Finding(
        "old_workers",
        Level.NOTE,
        "Workers run another version of Treadle, or may do so.",
        lines(detail),
        "Restart them; running jobs may finish (SIGTERM).",
    )


def _clocks(case: Case, workers: Sequence[Worker]) -> Finding:
    ahead = [each for each in workers if each.seen < -JITTER]
    if not ahead:
        return ok("worker_clocks", "No heartbeat comes from the future.")
    return Finding(
        "worker_clocks",
        most(*(level_of(-each.seen, 0, case.limits.clock[1]) for each in ahead)),
        "Heartbeats come from the future: the server's clock was set back, or this is another server than before.",
        lines([f"{_who(each)}: {span(-each.seen)} ahead" for each in ahead]),
        "See to the server's clock. The next heartbeat of a worker that lives mends it; until that time has passed, "
        "one that dies is not noticed.",
    )


def _who(worker: Worker) -> str:
    # Its name mostly begins with the machine's.
    where = f" on {worker.host}" if worker.host and not worker.worker_id.startswith(worker.host) else ""
    return f"{worker.worker_id}{where}"


def judge_strays(case: Case, strays: Sequence[Stray]) -> list[Finding]:
    if not strays:
        return [ok("held_by_hand", "No job is held by somebody who went silent.")]
    return [
        Finding(
            "held_by_hand",
            Level.NOTE,
            "Jobs are held by somebody who gives no sign of life and is not a worker: claimed by hand, and forgotten.",
            lines(
                [
                    f"{each.id} ({each.job_type}), held by {each.worker_id or 'nobody'}, silent for {span(each.silent)}"
                    for each in strays
                ]
            ),
            "Give back what has been silent for longer than you choose: "
            f"select {case.schema}.recover_stale_jobs('2 hours');",
        )
    ]


def judge_ticks(case: Case, tick: Tick) -> list[Finding]:
    if tick.seconds is not None and tick.seconds < -JITTER:
        return [
            Finding(
                "ticks",
                Level.NOTE,
                f"The last tick comes from the future, by {span(-tick.seconds)}: the server's clock was set back.",
                "Claims go on, from where they are sure.",
                "Nothing: the next tick mends it.",
            )
        ]
    if tick.neglected is None:
        return [ok("ticks", "The floors of the lanes are kept up.")]
    last = "there was none yet" if tick.seconds is None else f"the last one was made {span(tick.seconds)} ago"
    return [
        Finding(
            "ticks",
            Level.WARNING,
            "Workers claim jobs, and no tick is made: claims get slower with every job.",
            f"A worker claimed {span(tick.neglected)} ago; {last}.",
            f"select {case.schema}.tick(); -- an error says why; 0 while another transaction holds its lock",
        )
    ]


def judge_crashes(case: Case, crashing: Sequence[Crashing]) -> list[Finding]:
    if not crashing:
        return [ok("crashing_jobs", "No job takes its worker down again and again.")]
    return [
        Finding(
            "crashing_jobs",
            Level.WARNING,
            "Jobs take their worker down, or run out of its memory, again and again.",
            lines(
                [
                    f"{each.id} ({each.job_type}), {each.status}, {several(each.crashes, 'time')}"
                    + (f": {each.error}" if each.error else "")
                    for each in crashing
                ]
            ),
            "See what its process died of: the log of the worker, dmesg for the kernel's out-of-memory killer. "
            "@app.job(process=True, memory_limit=…) lets it die alone.",
        )
    ]


def judge_keys(case: Case, heads: Sequence[Head]) -> list[Finding]:
    levels = {each.id: level_of(each.failing, *case.limits.failing_head) for each in heads}
    bad = [each for each in heads if levels[each.id] is not Level.OK]
    if not bad:
        return [ok("failing_keys", "No key waits for long behind a job that fails.")]
    return [
        Finding(
            "failing_keys",
            most(*(levels[each.id] for each in bad)),
            "A job fails again and again, and the others with its key wait behind it.",
            lines(
                [
                    f"key {each.key}: {each.id} ({each.job_type}), failing for {span(each.failing)}, attempt "
                    f"{each.attempts} of {each.max_attempts}, {_some(each.waiting)} wait: "
                    f"{each.error or ''}"
                    for each in bad
                ]
            ),
            "Mend what it fails of, or let the others go by cancelling it: "
            + " ".join(f"select {case.schema}.cancel_job('{each.id}');" for each in bad[:3]),
        )
    ]


def _some(number: int) -> str:
    return "1,000 or more" if number >= 1000 else str(number)
