"""The guards that chaos/mutants.py removes, by subject, and the test or storm that must fail without each of them."""

from chaos.guards import (
    browser,
    claims,
    clocks,
    dashboard,
    database,
    defects,
    dependencies,
    ends,
    errors,
    keys,
    lanes,
    limits,
    notifications,
    observability,
    refusals,
    schedules,
    searches,
    sleeping_workers,
    stuck_workers,
    unique,
    workers,
    workflows,
)
from chaos.guards.mutant import Mutant

MUTANTS = [
    *claims.MUTANTS,
    *lanes.MUTANTS,
    *keys.MUTANTS,
    *workers.MUTANTS,
    *stuck_workers.MUTANTS,
    *refusals.MUTANTS,
    *sleeping_workers.MUTANTS,
    *notifications.MUTANTS,
    *clocks.MUTANTS,
    *database.MUTANTS,
    *schedules.MUTANTS,
    *unique.MUTANTS,
    *limits.MUTANTS,
    *dependencies.MUTANTS,
    *workflows.MUTANTS,
    *ends.MUTANTS,
    *observability.MUTANTS,
    *dashboard.MUTANTS,
    *browser.MUTANTS,
    *errors.MUTANTS,
    *searches.MUTANTS,
    *defects.MUTANTS,
]

__all__ = ["MUTANTS", "Mutant"]
