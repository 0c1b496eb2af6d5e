"""What a handler can raise to say how its job goes on. None of them is an error of the handler."""

from treadle.words.duration import Duration, duration


class Verdict(Exception):
    """The base of what a handler can say."""


class Retry(Verdict):
    """Try again after this long. It uses an attempt: after the last one the job has failed."""

    def __init__(self, reason: str = "asked to be tried again", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = None if after is None else duration(after, "after").total_seconds()


class Snooze(Verdict):
    """Not now: again after this long. It uses no attempt."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = duration(delay, "delay").total_seconds()


class Cancel(Verdict):
    """The job is not wanted any more: it ends as cancelled."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)
        self.reason = reason
