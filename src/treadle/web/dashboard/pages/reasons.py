"""Why a job does not run, for its page."""

from contextlib import suppress

from treadle.app.treadle import Treadle
from treadle.web.dashboard.redaction import redact_reason
from treadle.why.explain import awhy
from treadle.why.reason import Reason
from treadle.words.errors import JobNotFound, TooSlow
from treadle.words.snapshot import JobSnapshot


async def find_reason(app: Treadle, snapshot: JobSnapshot) -> Reason | None:
    """None if there is nothing to say that the page does not say anyway."""
    if snapshot.status.finished:
        return None
    with suppress(JobNotFound, TooSlow):
        reason = await awhy(app.database, snapshot.id)
        return None if reason.name == "running" else redact_reason(reason)
    return None
