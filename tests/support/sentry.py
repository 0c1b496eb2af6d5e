"""A transport for Sentry's SDK that keeps events, or writes them to a file."""

import json
from pathlib import Path
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

DSN = "https://key@sentry.example/1"


class FakeTransport(Transport):
    def __init__(self, file: Path | None = None) -> None:
        super().__init__()
        self.file = file
        self.sent: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            if item.type in ("event", "transaction"):
                assert item.payload.json
                self.sent.append(item.payload.json)

    def flush(self, timeout: float, callback: Any = None) -> None:
        if self.file is not None:
            with self.file.open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in self.sent)
            self.sent.clear()

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [each for each in self.sent if each.get("type") != "transaction"]

    @property
    def transactions(self) -> list[dict[str, Any]]:
        return [each for each in self.sent if each.get("type") == "transaction"]


def init(transport: FakeTransport, **options: Any) -> None:
    sentry_sdk.init(
        dsn=DSN, transport=transport, default_integrations=False, integrations=[LoggingIntegration()], **options
    )
