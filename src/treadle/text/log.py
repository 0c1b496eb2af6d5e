"""Treadle's own logger. Logging never stops anything: an application's filter, handler or record factory may raise."""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class OwnLogger(logging.Logger):
    def _log(
        self,
        level: int,
        msg: object,
        args: Any,
        exc_info: Any = None,
        extra: Mapping[str, object] | None = None,
        stack_info: bool = False,
        stacklevel: int = 1,
    ) -> None:
        try:
            # One level more: this frame is not the caller's.
            super()._log(level, msg, args, exc_info, extra, stack_info, stacklevel + 1)
        except Exception as error:
            with suppress(Exception):  # standard error may be closed
                print(f"treadle: a log line could not be written: {type(error).__name__}: {error}", file=sys.__stderr__)


log = logging.getLogger("treadle")
# The program may have made it before, when it set up its logging.
log.__class__ = OwnLogger
