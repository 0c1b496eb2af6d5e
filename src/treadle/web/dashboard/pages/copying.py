"""A job, and a list of jobs, as commands to copy: curl, SQL, Python and the command line."""

import json
import re
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from treadle.web.dashboard.security.access import Role
from treadle.words.listing import BLOCKED, LATER, JobFilter
from treadle.words.payload_condition import PayloadCondition
from treadle.words.status import FINISHED, Status

# The script replaces it with the address in the browser, which the server does not know behind a proxy.
ADDRESS = "$DASHBOARD"
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


class Copyable(NamedTuple):
    label: str
    text: str


def job_commands(schema: str, job_id: UUID, role: Role, mount_path: str) -> list[Copyable]:
    return [
        Copyable("Id", str(job_id)),
        Copyable("Command line", f"treadle show {job_id}"),
        Copyable("curl", _curl(role, f"{mount_path}/api/jobs/{job_id}")),
        Copyable("SQL", f"select * from {_identifier(schema)}.jobs where id = '{job_id}';"),
        Copyable("Python", f'from uuid import UUID\n\njob = app.handle(UUID("{job_id}"))\nprint(job.job(), job.why())'),
    ]


def list_commands(
    schema: str, job_filter: JobFilter, parameters: Mapping[str, str | None], role: Role, mount_path: str
) -> list[Copyable]:
    """`parameters`: the filter as in the URL of the page."""
    given = {name: value for name, value in parameters.items() if value}
    query = f"?{urlencode(given)}" if given else ""
    options = " ".join(f"--{name} {shlex.quote(value)}" for name, value in given.items())
    return [
        Copyable("Command line", f"treadle jobs {options}".rstrip()),
        Copyable("curl", _curl(role, f"{mount_path}/api/jobs{query}")),
        Copyable("SQL", list_statement(schema, job_filter)),
    ]


def list_statement(schema: str, job_filter: JobFilter) -> str:
    """The filter as a statement to start from. It reads the whole table if no index fits its conditions."""
    status = job_filter.status
    by_finish = status in FINISHED
    conditions = [
        *_status_conditions(status),
        *_equal("job_type", job_filter.job_type),
        *_equal("queue", job_filter.queue),
        *_equal("worker_id", job_filter.worker_id),
        *_equal("key", job_filter.key),
        *_search(job_filter.search),
        *_times("finished_at" if by_finish else "created_at", job_filter.since, job_filter.until),
        *([] if job_filter.where is None else map(_payload, job_filter.where.all)),
    ]
    where = "\nwhere " + "\n  and ".join(conditions) if conditions else ""
    order = "finished_at desc, id desc" if by_finish else "id desc"
    columns = "id, job_type, queue, priority, status, attempts, created_at, run_at, finished_at, last_error"
    return f"select {columns}\nfrom {_identifier(schema)}.jobs{where}\norder by {order}\nlimit 50;"


def _status_conditions(status: str | None) -> list[str]:
    if status == BLOCKED:
        return ["status = 'pending'", "holds <> 0"]
    if status == LATER:
        return ["status = 'pending'", "holds = 0", "run_at > now()"]
    if status == Status.PENDING:
        return ["status = 'pending'", "holds = 0"]
    return [] if status is None else [f"status = {literal(status)}"]


def _equal(column: str, value: str | None) -> list[str]:
    return [] if value is None else [f"{column} = {literal(value)}"]


def _search(text: str | None) -> list[str]:
    if text is None:
        return []
    found = literal(text.lower())
    if re.fullmatch("[0-9a-fA-F-]{8,36}", text, re.ASCII):
        return [f"(strpos(id::text, {found}) > 0 or strpos(lower(data::text), {found}) > 0)"]
    return [f"(strpos(lower(last_error), {found}) > 0 or strpos(lower(data::text), {found}) > 0)"]


def _times(column: str, since: datetime | None, until: datetime | None) -> list[str]:
    limits = ((">=", since), ("<", until))
    return [f"{column} {sign} {literal(moment.isoformat())}" for sign, moment in limits if moment is not None]


def _payload(condition: PayloadCondition) -> str:
    # As JSON strings: in an array literal, quotes and backslashes are escaped the same way.
    steps = ",".join(json.dumps(step, ensure_ascii=False) for step in condition.path)
    path = f"data #> {literal('{' + steps + '}')}"
    return f"{path} is not null" if condition.value is None else f"{path} = {literal(condition.value)}::jsonb"


def literal(text: str) -> str:
    """A string constant, whatever the setting standard_conforming_strings is."""
    escaped = text.replace("\0", "").replace("'", "''")
    return f"'{escaped}'" if "\\" not in escaped else " E'{}'".format(escaped.replace("\\", "\\\\")).lstrip()


def _identifier(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"{}"'.format(name.replace('"', '""'))


def _curl(role: Role, path: str) -> str:
    variable = "TREADLE_DASHBOARD_OPERATOR" if role >= Role.OPERATOR else "TREADLE_DASHBOARD_VIEWER"
    return f'curl -H "Authorization: Bearer ${variable}" "{ADDRESS}{path}"'
