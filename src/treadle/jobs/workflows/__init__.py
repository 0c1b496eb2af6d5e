"""Workflows: jobs that belong together, built as a value, checked, and enqueued in one transaction."""

from treadle.jobs.workflows.handles import Batch, WorkflowHandle
from treadle.jobs.workflows.shapes import chain, group
from treadle.jobs.workflows.steps import Step, wait_for_signal
from treadle.jobs.workflows.workflow import Workflow

__all__ = ["Batch", "Step", "Workflow", "WorkflowHandle", "chain", "group", "wait_for_signal"]
