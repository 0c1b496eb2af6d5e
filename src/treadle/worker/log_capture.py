"""Puts what a handler logs and prints into its job's outbox. Which job that is, the context says: for async handlers,
threads and child processes alike, and whatever they call. A thread that a handler starts by itself has no job."""

import logging
import sys
from typing import Any, TextIO

from treadle.attempt.job import running_job

_FORMATTER = logging.Formatter()


class _Logs(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and logging.lastResort is not None and self._is_alone(record.name):
            # Without a handler Python writes warnings to standard error. This one must not count as one.
            logging.lastResort.handle(record)
        job = running_job.get(None)
        if job is None or not job.function.policy.logs or record.name.partition(".")[0] == "treadle":
            return
        try:
            message = record.getMessage()
            if record.exc_info and record.exc_info[0] is not None:
                message = f"{message}\n{_FORMATTER.formatException(record.exc_info)}"
            job.log(record.levelno, record.name, message)
        except Exception:  # such as a message whose arguments do not fit it
            self.handleError(record)

    def _is_alone(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


class _Prints:
    """Standard output, and a copy for the job that prints."""

    def __init__(self, output: TextIO) -> None:
        self.output = output

    def write(self, text: str) -> int:
        job = running_job.get(None)
        if job is not None and job.function.policy.prints:
            job.printed(text)
        return self.output.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.output, name)


class Capture:
    """From start to stop. Several at once do no harm: each line is kept once."""

    _handler = _Logs()
    _users = 0

    def start(self, prints: bool) -> None:
        Capture._users += 1
        logging.getLogger().addHandler(self._handler)  # once, however often it is added
        if prints and not isinstance(sys.stdout, _Prints):
            sys.stdout = _Prints(sys.stdout)

    def stop(self) -> None:
        Capture._users -= 1
        if Capture._users == 0:
            logging.getLogger().removeHandler(self._handler)
            if isinstance(sys.stdout, _Prints):
                sys.stdout = sys.stdout.output
