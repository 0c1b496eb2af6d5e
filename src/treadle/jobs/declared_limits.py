"""What the code of an application declares: limits of its job functions and of queues, fairness and aging."""

from collections.abc import Iterable, Sequence

from treadle.words.errors import InvalidArgument
from treadle.words.limits import (
    AnyLimit,
    Declared,
    LimitDeclaration,
    LimitTargets,
    MaxPending,
    TypeSettings,
    declared_limit,
)


class DeclaredLimits:
    def __init__(self, settings: Iterable[TypeSettings] = ()) -> None:
        self._settings = list(settings)
        self._limits: dict[str, LimitDeclaration] = {}
        self._targets: dict[str, LimitTargets] = {}

    def add(
        self, limits: Sequence[LimitDeclaration], job_types: Iterable[str] = (), queues: Iterable[str] = ()
    ) -> None:
        for limit in limits:  # all of them first, so that nothing of a function that is refused remains
            known = self._limits.get(limit.name, limit)
            if known != limit:
                raise InvalidArgument(
                    f"the limit {limit.name!r} is declared twice, with different values: {known} and {limit}"
                )
        for limit in limits:
            self._limits[limit.name] = limit
            targets = self._targets.setdefault(limit.name, LimitTargets(set(), set()))
            targets.job_types.update(job_types)
            targets.queues.update(queues)

    def add_settings(self, settings: Iterable[TypeSettings]) -> None:
        self._settings.extend(settings)

    def limit_queue(self, queue: str, given: Iterable[AnyLimit]) -> None:
        given = list(given)
        if any(isinstance(each, MaxPending) and each.wait is not None for each in given):
            raise InvalidArgument("wait is for the max_pending of a job, not for that of a queue")
        limits = [declared_limit(each, f"queue {queue}") for each in given]
        self.add(limits, queues=[queue])

    def __call__(self) -> Declared:
        return Declared([(limit, self._targets[name]) for name, limit in self._limits.items()], list(self._settings))
