"""A condition on values in payloads, as text/payload_condition.py reads it."""

import json
import re
from typing import NamedTuple

_BARE = re.compile(r'[^\s."=\[\]]+')


class PayloadCondition(NamedTuple):
    """A value in the payload, by its path, equals a JSON value; or there is one."""

    path: tuple[str, ...]
    value: str | None
    """JSON; None: any value."""
    also: tuple["PayloadCondition", ...] = ()
    """Further conditions that must hold."""

    @property
    def all(self) -> tuple["PayloadCondition", ...]:
        """This one without further ones, and those."""
        return (self._replace(also=()), *self.also)

    @property
    def also_as_json(self) -> str | None:
        """As has_values() reads it."""
        conditions = (
            f'{{"path": {json.dumps(each.path)}' + ("}" if each.value is None else f', "value": {each.value}}}')
            for each in self.also
        )
        return f"[{', '.join(conditions)}]" if self.also else None

    def __str__(self) -> str:
        steps = (each if _BARE.fullmatch(each) else json.dumps(each, ensure_ascii=False) for each in self.path)
        first = f"data.{'.'.join(steps)} " + ("exists" if self.value is None else f"= {self.value}")
        return " and ".join([first, *map(str, self.also)])
