"""The ledger of chaos/: whole lines from many processes, and seats that are free when their process is gone."""

import subprocess
import sys
from pathlib import Path

from chaos.ledger import Ledger, Seats, read

from tests.support.workers import ROOT

SITS = """
import sys, time
from pathlib import Path
from chaos.ledger import Ledger, Seats
folder = Path(sys.argv[1])
Seats(folder).sit_down(["job a"], {"pid": "the other"})
Ledger(folder).note("start", id="a")
print("sits", flush=True)
time.sleep(600)
"""


def test_a_seat_is_free_the_moment_its_process_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SITS, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "sits\n"
        seats = Seats(tmp_path)
        assert seats.sit_down(["job a"], {}) == ([], [{"seat": "job a", "pid": "the other"}])
        other.kill()
        other.wait()
        taken, beside = seats.sit_down(["job a", "key b"], {"pid": 1})
        assert (len(taken), beside) == (2, [])
        # In the same process, too: handlers on threads and on the loop share one.
        assert seats.sit_down(["key b"], {})[1] == [{"seat": "key b", "pid": 1}]
        seats.stand_up(taken)
        again, beside = seats.sit_down(["job a", "key b"], {})
        assert beside == []
        seats.stand_up(again)
    Ledger(tmp_path).note("end", id="a")
    assert [(record["what"], record["id"]) for record in read(tmp_path)] == [("start", "a"), ("end", "a")]
    assert len({record["pid"] for record in read(tmp_path)}) == 2
