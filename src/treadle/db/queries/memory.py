"""What a job keeps for its next attempt, and its own transaction: checkpoint, steps, the fence before the commit."""

from uuid import UUID

from treadle.db.query import Query, Rows, call, statement
from treadle.words.claim import Claim


def save_checkpoint(worker_id: str, claim: Claim, state: str) -> Query[bool]:
    """Whether the job is still claimed by this worker."""
    return call("save_checkpoint", {"checkpoint": state, **_fence(worker_id, claim)}, _accepted)


def finish_step(worker_id: str, claim: Claim, position: int, name: str, result: str | None) -> Query[bool]:
    """Whether the job is still claimed by this worker."""
    return call(
        "finish_step", {"position": position, "name": name, "result": result, **_fence(worker_id, claim)}, _accepted
    )


def lock_claimed(worker_id: str, claim: Claim) -> Query[bool]:
    """Whether the job is still claimed by this worker; if so, it stays so until the transaction ends."""
    return Query(statement("lock_held"), _fence(worker_id, claim), _accepted)


def complete_claimed(worker_id: str, claim: Claim, result: str | None) -> Query[bool]:
    """Whether the completion was accepted."""
    return call("complete_job", {"result": result, **_fence(worker_id, claim)}, _accepted)


def get_steps(job_id: UUID) -> Query[dict[int, tuple[str, str | None]]]:
    """By position: the name and the result, as JSON, of each finished step."""
    return Query(
        statement("get_steps"),
        {"id": job_id},
        lambda rows: {position: (name, result) for position, name, result in rows},
    )


def _fence(worker_id: str, claim: Claim) -> dict[str, object]:
    return {"id": claim.id, "lease": claim.lease, "worker_id": worker_id}


def _accepted(rows: Rows) -> bool:
    return bool(rows[0][0])
