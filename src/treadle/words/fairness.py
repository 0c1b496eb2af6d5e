"""How claims choose among jobs of different types, and of different priorities: the option `fairness`."""

from dataclasses import dataclass

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.limits import TypeSettings
from treadle.words.options import checked_value

# How many of a hundred claims begin with jobs that have waited for long.
AGING_SHARE = 10


@checked_value
@dataclass(frozen=True)
class Fairness:
    """Which jobs of all types are claimed first: `Fairness(by_type=True, aging="1h")`."""

    by_type: bool = False
    """The job types of one priority take turns. Otherwise the oldest job comes first."""
    aging: Duration | None = None
    """Jobs that have waited for longer than this get a tenth of the claims, whatever their priority. Without it, jobs
    of a higher priority can hold them up for ever."""

    def __post_init__(self) -> None:
        if self.aging is not None and not duration(self.aging, "aging"):
            raise InvalidArgument(f"aging must be longer than 0 s, got {self.aging!r}")

    def settings(self) -> list[TypeSettings]:
        """As the code of an application declares them."""
        found = TypeSettings("")
        if self.by_type:
            found = found._replace(fair_by="", weights_of="")
        if self.aging is not None:
            found = found._replace(aging_seconds=duration(self.aging).total_seconds(), aging_share=AGING_SHARE)
        return [] if found == TypeSettings("") else [found]


def check_fairness(given: object) -> Fairness:
    """The option, with its default."""
    if given is None:
        return Fairness()
    if not isinstance(given, Fairness):
        raise InvalidArgument(f'fairness must be Fairness(…), such as Fairness(aging="1h"), got {given!r}')
    return given
