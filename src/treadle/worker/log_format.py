"""What log lines look like, for a worker that is the whole process, and for its supervisor."""

import json
import logging
from datetime import UTC, datetime

log = logging.getLogger("treadle")


class TextFormatter(logging.Formatter):
    """12:30:01 WARNING job failed, will be retried job_type=mail attempt=1 …"""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        line = f"{moment} {record.levelname:7} {record.getMessage()}"
        return f"{line}\n{trace}" if (trace := _traceback(record)) else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "message": getattr(record, "what", None) or record.getMessage(),
            **getattr(record, "event", {}),
        }
        if trace := _traceback(record):
            line["traceback"] = trace
        return json.dumps(line, default=str)


def set_up(level: str, style: str) -> None:
    """For a worker that is the whole process: lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    handler.addFilter(lambda record: record.name == "treadle" or record.levelno >= logging.WARNING)
    handler.addFilter(_redact)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # What handlers log from here on is kept with their jobs; only the rest is for the terminal.
    root.setLevel(logging.INFO)
    log.handlers.clear()
    log.setLevel(level.upper())


def _traceback(record: logging.LogRecord) -> str | None:
    """As _redact has formatted it; or, if that failed, as Python does."""
    if record.exc_text or not record.exc_info:
        return record.exc_text
    return logging.Formatter().formatException(record.exc_info)


def _redact(record: logging.LogRecord) -> bool:
    """Mask secrets in what Treadle and libraries log, and format the traceback."""
    # Imported with the first line: a supervisor has to start quickly.
    from treadle.words.log_redaction import RedactingFilter

    return RedactingFilter().filter(record)
