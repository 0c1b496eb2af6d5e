"""JobQueue: the queue without an application."""

from treadle.queue.job_queue import JobQueue

__all__ = ["JobQueue"]
