"""Exceptions with which a handler controls what happens to its job. None of them is an error."""

from treadle.words.duration import Duration, duration


class ControlException(Exception):
    """The base of the exceptions that control a job."""


class Retry(ControlException):
    """Retry the job after this long. It uses an attempt: after the last one the job fails."""

    def __init__(self, reason: str = "the handler asked for a retry", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = None if after is None else duration(after, "after").total_seconds()


class Snooze(ControlException):
    """Postpone the job. It does not use an attempt."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = duration(delay, "delay").total_seconds()


class RateLimited(ControlException):
    """The handler was told to wait, by an answer such as 429 Too Many Requests: the whole limit of the job waits for
    this long, and the job returns to its place. It does not use an attempt. `for_` names the part that the limit is
    per, if the job has several."""

    def __init__(self, retry_after: Duration, *, for_: str | None = None) -> None:
        super().__init__(f"told to wait for {retry_after}")
        self.delay = duration(retry_after, "retry_after").total_seconds()
        self.for_ = for_


class Cancel(ControlException):
    """Cancel the job: it is no longer needed."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)
        self.reason = reason
