"""The next version of Treadle in this process, as far as migrations go: they find its SQL."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle.db import query
from treadle.db.migrations import function_files, migration_files
from treadle.db.preparation import preparations
from treadle.doctor.expected_schema import expected_schema

CACHES = (migration_files, function_files, preparations, expected_schema)


@contextmanager
def sql_of(folder: Path) -> Iterator[None]:
    """Migrate with the SQL of the version that write_next_version() has put there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query, "files", folder.joinpath)
        _forget()
        try:
            yield
        finally:
            _forget()


def environment_of(folder: Path) -> dict[str, str]:
    """For a process that runs that version."""
    return os.environ | {"PYTHONPATH": str(folder)}


def _forget() -> None:
    for each in CACHES:
        each.cache_clear()
