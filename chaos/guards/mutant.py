"""What a guard is, and how it is removed."""

from dataclasses import dataclass

FUNCTIONS = "src/treadle/sql/functions"
WORKER = "src/treadle/worker"


@dataclass(frozen=True)
class Mutant:
    guard: str
    """What the removed code ensures."""
    file: str
    text: str
    """The exact text in the file. All occurrences are replaced."""
    replacement: str
    red: str
    """The test that must fail, or `storm NAME …`."""


def test(module: str, *names: str) -> str:
    """Name tests of a module: `worker/lease` means tests/worker/test_lease.py."""
    room, _, name = module.rpartition("/")
    return f"tests/{room}/test_{name}.py" + (f" -k {' or '.join(names)}" if names else "")
