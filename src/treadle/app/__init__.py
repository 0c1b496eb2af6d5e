"""The front door: what applications import."""

from treadle.app.handle import Handle
from treadle.app.treadle import Treadle
from treadle.app.workflows import Workflow, WorkflowHandle, chain, group
from treadle.attempt.job import Job, current_job

__all__ = ["Handle", "Job", "Treadle", "Workflow", "WorkflowHandle", "chain", "current_job", "group"]
