"""A server whose clock can be set while it runs: needs libfaketime."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from chaos.fake_clock import MISSING, FakeClock, library
from chaos.servers import Server, serving

DAY = 86_400
JUMPS = pytest.mark.parametrize("seconds", [DAY, 30, -30, -DAY], ids=["a day ahead", "ahead", "back", "a day back"])
NEEDS_LIBRARY = pytest.mark.skipif(library() is None, reason=MISSING)


class ClockedServer:
    """A server whose clock can be set, and a client of its queue."""

    def __init__(self, server: Server, clock: FakeClock) -> None:
        self.server = server
        self.url = server.url
        self.set = clock.set
        self.connection = server.connect()

    def reset(self) -> None:
        """Set the clock right, and forget all jobs."""
        self.set(0)
        self.connection.execute(
            "truncate jobs, lanes, floors, ticks, workers, errors, clock_jumps, minutes;"
            "select setval('tick_clock', 0), setval('awaited', 0), setval('watched', 0)"
        )

    def one(self, query: str, *params: object) -> Any:
        row = self.connection.execute(query.encode(), params).fetchone()
        return row[0] if row else None

    def enqueue(self, name: str, key: str | None = None, delay: str | None = None) -> None:
        self.connection.execute(
            "select enqueue('a', jsonb_build_object('name', %s::text), p_key => %s, p_delay => %s::interval)",
            [name, key, delay],
        )

    def claim(self, limit: int = 10) -> list[str]:
        rows = self.connection.execute("select data->>'name' from claim_jobs('w', '{a}', %s)", [limit]).fetchall()
        return [name for (name,) in rows]

    def complete(self) -> None:
        self.connection.execute("update jobs set status = 'completed' where status in ('claimed', 'running')")

    def raise_floors(self) -> None:
        """Run a job, and move the floor of its lane behind it."""
        self.enqueue("first")
        assert self.claim() == ["first"]
        self.complete()
        # A floor stays 250 ms behind the clock (c_margin in tick.sql).
        self.connection.execute("update jobs set run_at = run_at - interval '1 second'")
        self.connection.execute("select tick('0')")
        assert self.one("select count(*) from floors") > 0


@contextmanager
def running_server() -> Iterator[ClockedServer]:
    with TemporaryDirectory(prefix="treadle-clock-") as folder:
        Path(folder).chmod(0o755)
        clock = FakeClock(Path(folder) / "clock", FAKETIME_NO_CACHE="1")
        with serving(environment=clock.environment) as server:
            clocked = ClockedServer(server, clock)
            with clocked.connection:
                yield clocked
