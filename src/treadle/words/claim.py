"""A claimed job as a worker gets it. The payload is still JSON text, so that a bad one fails only its own job."""

from typing import NamedTuple
from uuid import UUID


class Claim(NamedTuple):
    id: UUID
    lease: int
    job_type: str
    data: str
    attempts: int
    max_attempts: int
    crashes: int
    queue: str
    priority: int
    key: str | None
    checkpoint: str | None
    created: float  # seconds since 1970: a time with its zone takes ten times as long to read
    origin: str | None = None
    """Where the job comes from, if a schedule enqueued it: JSON, see words/origin.py."""
    headers: str | None = None
    """JSON."""
