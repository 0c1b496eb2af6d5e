"""Keeps what handlers log and print. Log lines are attributed to jobs through contextvars.

This works for async handlers, threads and child processes, and for all code that they call. A thread that a handler
starts itself has a context of its own: its lines are not kept.
"""

import logging
import sys
from typing import Any, TextIO

from treadle.attempt.attempt import running_attempt
from treadle.text.log_redaction import redact_copy, traceback_of
from treadle.worker.log_message import one_line


class _JobLogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and logging.lastResort is not None and self._is_alone(record.name):
            # Python writes warnings to standard error if no handler is set up. This one must not prevent that.
            logging.lastResort.handle(redact_copy(record))
        attempt = running_attempt.get(None)
        if attempt is None or not attempt.environment.keep_logs or record.name.partition(".")[0] == "treadle":
            return
        try:
            message = one_line(record)
            if record.exc_info and record.exc_info[0] is not None:
                message = f"{message}\n{traceback_of(record)}"
            attempt.outbox.add_log_line(record.levelno, record.name, message)
        except Exception:  # such as a message whose arguments do not match its placeholders
            self.handleError(redact_copy(record))

    def _is_alone(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


class _CapturedOutput:
    """Standard output that also keeps what jobs print."""

    def __init__(self, output: TextIO) -> None:
        self.output = output

    def write(self, text: str) -> int:
        attempt = running_attempt.get(None)
        if attempt is not None and attempt.environment.keep_prints:
            attempt.outbox.add_printed(text)
        return self.output.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.output, name)


class Capture:
    """Captures from start() to stop(). Several may be active in one process: each line is still kept once."""

    _handler = _JobLogHandler()
    _users = 0

    def start(self, prints: bool) -> None:
        Capture._users += 1
        logging.getLogger().addHandler(self._handler)  # adding it again changes nothing
        if prints and not isinstance(sys.stdout, _CapturedOutput):
            sys.stdout = _CapturedOutput(sys.stdout)

    def stop(self) -> None:
        Capture._users -= 1
        if Capture._users == 0:
            logging.getLogger().removeHandler(self._handler)
            if isinstance(sys.stdout, _CapturedOutput):
                sys.stdout = sys.stdout.output
