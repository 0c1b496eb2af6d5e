"""The running process: claims jobs, runs their handlers, and writes down what came of it."""

from treadle.worker.options import WorkerOptions
from treadle.worker.run import run_worker
from treadle.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions", "run_worker"]
