"""treadle show."""

import click

from treadle.cli.details import show_details
from treadle.cli.graph import graph_object
from treadle.cli.options import as_json, database_url, job_ids, opened, schema
from treadle.cli.output import print_json, screen
from treadle.operations.details import LINES, JobDetails, get_details
from treadle.operations.graph import get_graph, mask_graph
from treadle.operations.masking import mask_details
from treadle.words.graph import WORKFLOW, Graph
from treadle.words.payload import Json


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--full", is_flag=True, help=f"All events and log lines, untruncated. [default: the last {LINES}]")
@click.option("--show-secrets", is_flag=True, help="Do not mask values whose key looks like a secret.")
@as_json
@database_url
@schema
def show(job_id: str, full: bool, show_secrets: bool, as_json: bool, database_url: str | None, schema: str) -> None:
    """Show the details of a job.

    Prints its timeline, events, failed attempts with tracebacks, log, steps, checkpoint, payload, result, and the
    changes that operators made; of a workflow, the graph of its jobs.

    \b
    treadle show 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle show 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35 --json | jq .job.data
    """
    with opened(database_url, schema) as app:
        (wanted,) = job_ids(app, [job_id])
        found = get_details(app.database, wanted, full=full)
        graph = get_graph(app.database, wanted) if found.job.job_type == WORKFLOW else None
    if not show_secrets:
        found = mask_details(found)
        graph = mask_graph(graph) if graph is not None else None
    if as_json:
        print_json(as_object(found, graph), show_secrets=show_secrets)
    else:
        show_details(screen(), found, graph=graph, full=full)


def as_object(found: JobDetails, graph: Graph | None = None) -> Json:
    details = {name: value for name, value in found._asdict().items() if name not in ("snapshot", "payloads")}
    hidden = [each if "." in each else f"job.{each}" for each in found.hidden]
    return {"at": found.at, **details, "hidden": hidden, **({} if graph is None else {"graph": graph_object(graph)})}
