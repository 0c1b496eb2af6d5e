"""Masks secrets in log records, before a handler formats them.

Treadle's own logger has the filter in every process. In a program that `treadle` runs, its handler has it as well, so
that the lines of libraries are masked, too.
"""

import logging
from collections.abc import Mapping

from treadle.text.exceptions import format_traceback
from treadle.text.masking import redacted

_MARK = "treadle_redacted"


class RedactingFilter(logging.Filter):
    """Changes records and drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            redact(record)
        except Exception:
            # Such as arguments that do not fit the message: logging reports that, with both, when it is formatted.
            record.msg, record.args = redacted(str(record.msg)), redacted(record.args)
        return True


def redact(record: logging.LogRecord) -> None:
    """Mask the message, the traceback and the facts of an event. A formatter uses `exc_text` if it is there."""
    if hasattr(record, _MARK):
        return
    if isinstance(record.msg, Mapping):  # of structlog
        record.msg = redacted(dict(record.msg))
    else:
        message = record.getMessage()
        if (masked_message := redacted(message)) != message:
            record.msg, record.args = masked_message, ()
    if trace := traceback_of(record):
        record.exc_text = redacted(trace)
    if record.stack_info:
        record.stack_info = redacted(record.stack_info)
    if isinstance(facts := getattr(record, "event", None), dict):
        record.event = redacted(facts)
    setattr(record, _MARK, True)


def redact_copy(record: logging.LogRecord) -> logging.LogRecord:
    """A masked copy, for a handler that formats with what it has."""
    made = logging.makeLogRecord(vars(record))
    RedactingFilter().filter(made)
    return made


def traceback_of(record: logging.LogRecord) -> str:
    """The traceback of a record, in bounded time; empty if it has none."""
    if record.exc_text:
        return record.exc_text
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    return format_traceback(record.exc_info[1]).rstrip("\n")


_FILTER = RedactingFilter()


def redact_own_log() -> None:
    """Mask what Treadle logs, whichever handlers the program has set up."""
    logging.getLogger("treadle").addFilter(_FILTER)  # adding it again changes nothing
