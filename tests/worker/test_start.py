"""Processes start without the garbage collector, which then looks through what comes after the imports."""

import gc
import signal
from collections.abc import Callable, Iterator

import pytest

from treadle.cli import main as command
from treadle.worker import child, child_program, keeper, process


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether the collector ran when each program began its work. They only begin it."""
    observed: list[bool] = []

    async def keep() -> None:
        observed.append(gc.isenabled())

    monkeypatch.setattr(child, "work", lambda _: observed.append(gc.isenabled()))
    monkeypatch.setattr(keeper, "keep", keep)
    monkeypatch.setattr(process, "_die_with", lambda _: observed.append(gc.isenabled()))
    interrupt = signal.getsignal(signal.SIGINT)
    gc.disable()
    yield observed
    gc.enable()
    signal.signal(signal.SIGINT, interrupt)


def start_worker_process() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("TREADLE_SUPERVISOR", "1")
        monkeypatch.setattr("sys.stdin", None)
        with pytest.raises(AttributeError):  # it has no orders
            process.main()


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda: child_program.main(None), id="a child process"),  # type: ignore[arg-type]
        pytest.param(keeper.main, id="a keeper"),
        pytest.param(start_worker_process, id="a worker process"),
    ],
)
def test_a_process_collects_garbage_after_its_imports(observed: list[bool], start: Callable[[], None]) -> None:
    start()
    assert observed == [True]


def test_a_command_collects_garbage_after_its_imports(observed: list[bool]) -> None:
    command(["completion", "bash"], standalone_mode=False)
    assert gc.isenabled()
