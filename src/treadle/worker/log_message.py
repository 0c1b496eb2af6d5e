"""The text and the fields of a log record. structlog hands over a dict instead of a text."""

import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple


class Message(NamedTuple):
    text: str
    fields: dict[str, Any]


def message_of(record: logging.LogRecord) -> Message:
    message: object = record.msg
    if not isinstance(message, Mapping):
        return Message(record.getMessage(), {})
    fields = {str(name): value for name, value in message.items()}
    return Message(str(fields.pop("event", "")), fields)


def one_line(record: logging.LogRecord) -> str:
    text, fields = message_of(record)
    return " ".join([text, pairs(fields)]) if fields else text


def pairs(fields: Mapping[str, Any]) -> str:
    """job_type=mail error="no such address" """
    return " ".join(f"{name}={shown(value)}" for name, value in fields.items() if value not in (None, ""))


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or "\n" in text else text
