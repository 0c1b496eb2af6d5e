"""What applications call: Treadle, job functions, handles, and the job that a handler is given."""

from treadle.app.handle import Handle
from treadle.app.job import Job, current_job
from treadle.app.treadle import Treadle

__all__ = ["Handle", "Job", "Treadle", "current_job"]
