"""Parameters of the statements that write events and log lines: the lines of several jobs as flat arrays."""

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from treadle.db.query import Rows
from treadle.words.claim import Claim
from treadle.words.payload import Json

Line = TypeVar("Line")


def by_job(worker_id: str, records: Sequence[tuple[Claim, Sequence[Any]]]) -> dict[str, Json]:
    return {
        "worker_id": worker_id,
        "ids": [claim.id for claim, _ in records],
        "leases": [claim.lease for claim, _ in records],
    }


def flat(records: Sequence[tuple[Claim, Sequence[Line]]]) -> tuple[list[int], list[Line]]:
    """The number of the job of each line, from 1, and all lines one after the other."""
    owners = [index for index, (_, lines) in enumerate(records, 1) for _ in lines]
    return owners, [line for _, lines in records for line in lines]


def ids(rows: Rows) -> set[UUID]:
    return {row[0] for row in rows}
