"""The application of chaos/workflows.py: steps that end as their plan says, and note when they begin and end."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos.ledger import Ledger
from chaos.workflow_plans import COMPLETED, ENDED, FAILED, Node, Plan
from treadle import Backoff, Job, Retries, Treadle, Workflow, if_failed, ok_to_fail, wait_for_signal

app = Treadle()
ledger = Ledger.of_environment()

OPTIONS: dict[str, Any] = {"retry": Retries(1, backoff=Backoff(first="20ms", limit="50ms")), "logs": False}


class RequestedFailure(Exception):
    """As the plan says."""


@contextmanager
def noted(job: Job, fate: str = "complete") -> Iterator[None]:
    ledger.note("start", id=str(job.id))
    time.sleep(random.choice([0, 0, 0, 0.01]))
    if fate == "fail" or (fate == "retry" and job.attempt == 1):
        ledger.note("end", id=str(job.id), ok=False)
        raise RequestedFailure
    yield
    ledger.note("end", id=str(job.id), ok=True)


@app.job(**OPTIONS)
def step(job: Job, fate: str) -> None:
    with noted(job, fate):
        pass


@app.job(**OPTIONS)
def listing(job: Job, fate: str, fates: list[str]) -> list[str]:
    with noted(job, fate):
        return fates


@app.job(**OPTIONS)
def adding(job: Job, fate: str, fates: list[str]) -> None:
    """If its process is killed, it adds them twice."""
    with noted(job, fate):
        step.using(workflow=job).enqueue_many([{"fate": each} for each in fates])


@app.job(**OPTIONS)
def undo(job: Job, node: str) -> None:
    with noted(job):
        pass


@app.job(**OPTIONS)
def callback(job: Job, workflow: str, when: str) -> None:
    with noted(job):
        pass


WAYS = {COMPLETED: lambda name: name, ENDED: ok_to_fail, FAILED: if_failed}


def build(plan: Plan, callbacks: bool = True) -> Workflow:
    def call(when: str) -> Any:
        return callback.call(plan.name, when) if callbacks else None

    flow = Workflow(
        plan.name, on_complete=call("on_complete"), on_success=call("on_success"), on_failure=call("on_failure")
    )
    steps: dict[str, Any] = {}
    for node in plan.nodes:
        steps[node.name] = _add(flow, node, steps)
    return flow


def _add(flow: Workflow, node: Node, steps: dict[str, Any]) -> Any:
    after = [WAYS[needs](name) for name, needs in node.edges]
    match node.kind:
        case "map":
            return flow.map(step.call(), over=steps[node.edges[0][0]], name=node.name)
        case "listing":
            return flow.add(listing.call(node.fate, node.fates), name=node.name, after=after)
        case "adding":
            return flow.add(adding.call(node.fate, node.fates), name=node.name, after=after)
        case "signal":
            return flow.add(wait_for_signal(f"go {node.name}"), name=node.name, after=after)
        case "nested":
            assert node.inner is not None
            return flow.add(build(node.inner, callbacks=False), name=node.name, after=after)
    call = undo.call(f"{flow.name} {node.name}") if node.undo else None
    return flow.add(step.call(node.fate), name=node.name, after=after, undo=call)
