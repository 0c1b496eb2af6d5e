"""Workflows: jobs that belong together, built as a value, checked, and enqueued in one transaction."""

from treadle.app.workflows.handles import Batch, WorkflowHandle
from treadle.app.workflows.shapes import chain, group
from treadle.app.workflows.steps import Step, wait_for_signal
from treadle.app.workflows.workflow import Workflow

__all__ = ["Batch", "Step", "Workflow", "WorkflowHandle", "chain", "group", "wait_for_signal"]
