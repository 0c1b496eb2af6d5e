"""The ledger of chaos/: complete lines from many processes, and locks that are released when a process dies."""

import os
import subprocess
import sys
from pathlib import Path

from chaos.ledger import Ledger, RunLocks, read

from tests.support.workers import ROOT

HOLDS_A_LOCK = """
import sys, time
from pathlib import Path
from chaos.ledger import Ledger, RunLocks
folder = Path(sys.argv[1])
RunLocks(folder).acquire(["job a"], {"pid": "the other"})
Ledger(folder).note("start", id="a")
print("acquired", flush=True)
time.sleep(600)
"""


def test_a_lock_is_released_when_its_process_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_LOCK, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "acquired\n"
        run_locks = RunLocks(tmp_path)
        assert run_locks.acquire(["job a"], {}) == ([], [{"lock": "job a", "pid": "the other"}])
        other.kill()
        other.wait()
        acquired, others = run_locks.acquire(["job a", "key b"], {"pid": 1})
        assert (len(acquired), others) == (2, [])
        # Within one process too: handlers on threads and on the event loop share it.
        assert run_locks.acquire(["key b"], {})[1] == [{"lock": "key b", "pid": 1}]
        run_locks.release(acquired)
        again, others = run_locks.acquire(["job a", "key b"], {})
        assert others == []
        run_locks.release(again)
    Ledger(tmp_path).note("end", id="a")
    assert [(record["what"], record["id"]) for record in read(tmp_path)] == [("start", "a"), ("end", "a")]
    assert len({record["pid"] for record in read(tmp_path)}) == 2


def test_the_kernel_knows_who_has_locked_a_file_that_says_nothing(tmp_path: Path) -> None:
    run_locks = RunLocks(tmp_path)
    acquired, _ = run_locks.acquire(["job a"], {"pid": 1})
    os.ftruncate(acquired[0], 0)
    assert run_locks.acquire(["job a"], {})[1] == [{"lock": "job a", "pid": os.getpid()}]
    run_locks.release(acquired)
