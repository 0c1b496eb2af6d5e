"""What a job keeps for its next attempt, checkpoint and steps, and the fence at the end of its own transactions."""

from uuid import UUID

from treadle.db.query import Query, Rows, call, statement
from treadle.words.job import Claim


def save_checkpoint(worker_id: str, claim: Claim, state: str) -> Query[bool]:
    """Returns False, and saves nothing, if the job is no longer claimed by this worker."""
    return call("save_checkpoint", {"checkpoint": state, **_fence(worker_id, claim)}, _accepted)


def finish_step(worker_id: str, claim: Claim, position: int, name: str, result: str | None) -> Query[bool]:
    """Returns False, and saves nothing, if the job is no longer claimed by this worker."""
    return call(
        "finish_step", {"position": position, "name": name, "result": result, **_fence(worker_id, claim)}, _accepted
    )


def lock_claimed(worker_id: str, claim: Claim) -> Query[bool]:
    """Lock the job until the transaction ends, if it is still claimed by this worker. Returns whether it is."""
    return Query(statement("lock_claimed"), _fence(worker_id, claim), _accepted)


def complete_claimed(worker_id: str, claim: Claim, result: str | None) -> Query[bool]:
    """Returns False, and changes nothing, if the job is no longer claimed by this worker."""
    return call("complete_job", {"result": result, **_fence(worker_id, claim)}, _accepted)


def get_steps(job_id: UUID, *, results: bool = True) -> Query[dict[int, tuple[str, str | None]]]:
    """By position: the name and the result, as JSON, of each finished step."""
    text = statement("get_steps")
    return Query(
        text if results else text.replace("result::text", "null"),
        {"id": job_id},
        lambda rows: {position: (name, result) for position, name, result in rows},
    )


def _fence(worker_id: str, claim: Claim) -> dict[str, object]:
    return {"id": claim.id, "lease": claim.lease, "worker_id": worker_id}


def _accepted(rows: Rows) -> bool:
    return bool(rows[0][0])
