"""The front door: what applications import."""

from treadle.app.handle import Handle
from treadle.app.treadle import Treadle
from treadle.attempt.job import Job, current_job

__all__ = ["Handle", "Job", "Treadle", "current_job"]
