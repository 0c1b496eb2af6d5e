"""A claimed job as the worker needs it: the payload is still JSON text, so that a bad one fails alone."""

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
