"""What applications call."""

from treadle.queue.job_queue import JobQueue

__all__ = ["JobQueue"]
