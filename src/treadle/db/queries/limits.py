"""Queries of limits: what code declares."""

import json
from collections.abc import Iterable

from treadle.db.query import Query, call
from treadle.words.limits import LimitDeclaration, LimitTargets


def declare(limits: Iterable[tuple[LimitDeclaration, LimitTargets]]) -> Query[None]:
    rows = [
        {
            **limit._asdict(),
            "digest": limit.digest,
            "job_types": sorted(targets.job_types),
            "queues": sorted(targets.queues),
        }
        for limit, targets in limits
    ]
    return call("declare_limits", {"limits": json.dumps(rows)}, lambda rows: None)
