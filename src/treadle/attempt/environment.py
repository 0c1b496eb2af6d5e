"""What all attempts of one job function in one process share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from treadle.db.database import Database


@dataclass(frozen=True, slots=True)
class Environment:
    worker_id: str
    database: Database
    """The application's, on which handlers save checkpoints, steps and transactions."""
    payload_limit: int
    encode_result: Callable[[Any], str | None]
    """The return value of a handler as JSON; None for no result."""
    keep_logs: bool
    keep_prints: bool
