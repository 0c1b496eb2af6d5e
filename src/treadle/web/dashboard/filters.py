"""The filter of a list of jobs, as query parameters and form fields."""

from datetime import UTC, datetime

from treadle.text.payload_condition import read_payload_condition
from treadle.web.dashboard.routes import Context
from treadle.words.changes import AuditFilter
from treadle.words.listing import JobFilter
from treadle.words.moment import moment

# In the order of the fields of JobFilter.
NAMES = ("status", "type", "queue", "worker", "key", "search", "since", "until", "where")


def read_filter(
    status: str | None,
    job_type: str | None,
    queue: str | None,
    worker_id: str | None,
    key: str | None,
    search: str | None,
    since: str | None,
    until: str | None,
    where: str | None,
) -> JobFilter:
    """From what people write. Times without an offset are in UTC."""
    now = datetime.now(UTC)
    return JobFilter(
        status,
        job_type,
        queue,
        worker_id,
        key,
        search,
        None if since is None else moment(since, "since", now),
        None if until is None else moment(until, "until", now),
        None if where is None else read_payload_condition(where),
    )


def read_audit_filter(
    actor: str | None, action: str | None, job_type: str | None, since: str | None, until: str | None
) -> AuditFilter:
    now = datetime.now(UTC)
    return AuditFilter(
        actor,
        action,
        job_type,
        None if since is None else moment(since, "since", now),
        None if until is None else moment(until, "until", now),
    )


def filter_of(context: Context) -> JobFilter:
    """The filter in the query parameters or in the form."""
    return read_filter(*map(context.field, NAMES))


def filter_parameters(context: Context) -> dict[str, str | None]:
    """The same filter as query parameters, for links and forms."""
    return {name: context.field(name) for name in NAMES}


def fixed_parameters(job_filter: JobFilter) -> dict[str, str | None]:
    """As query parameters that mean the same later: 2h ago becomes a time."""
    values = (each.isoformat() if isinstance(each, datetime) else each and str(each) for each in job_filter)
    return dict(zip(NAMES, values, strict=True))
