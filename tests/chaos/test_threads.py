"""A short storm; for a long one: python -m chaos.threads --seconds 600."""

import pytest
from chaos.threads import RandomCalls


@pytest.mark.parametrize("seed", [7])
def test_a_storm_breaks_no_promise(url: str, seed: int) -> None:
    storm = RandomCalls(url, seed)
    ledger = storm.run(seconds=6)
    assert ledger.problems == []
    assert len(ledger.claims) > 100
