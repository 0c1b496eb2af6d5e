"""The front door: what applications import."""

from treadle.app.group import JobGroup
from treadle.app.handle import Handle
from treadle.app.middleware import EnqueueCall
from treadle.app.treadle import Treadle
from treadle.app.workflows import Batch, Workflow, WorkflowHandle, chain, group, wait_for_signal
from treadle.attempt.job import Job, current_job

__all__ = [
    "Batch",
    "EnqueueCall",
    "Handle",
    "Job",
    "JobGroup",
    "Treadle",
    "Workflow",
    "WorkflowHandle",
    "chain",
    "current_job",
    "group",
    "wait_for_signal",
]
