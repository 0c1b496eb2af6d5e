"""The short form of `make storm`; for a longer run: python -m chaos.threads --seconds 600."""

import pytest
from chaos.threads import RandomCalls


@pytest.mark.parametrize("seed", [7])
def test_random_concurrent_calls_violate_no_guarantee(url: str, seed: int) -> None:
    ledger = RandomCalls(url, seed).run(seconds=3)
    assert ledger.problems == []
    assert len(ledger.claims) > 100
