"""What a storm is: something that is done to the scene again and again, and undone in the end."""

import random
from typing import ClassVar, TypeAlias

from chaos.scene import Scene

Chance: TypeAlias = random.Random


class Storm:
    name: ClassVar[str]
    about: ClassVar[str]
    every: ClassVar[tuple[float, float]] = (1.0, 3.0)
    """Seconds between two blows."""

    def missing(self) -> str | None:
        """What this machine lacks for it, if it does."""
        return None

    def prepare(self, scene: Scene) -> None:
        """Before there is a server."""

    def join(self, scene: Scene) -> None:
        """Before there are workers."""

    def strike(self, scene: Scene, chance: Chance) -> None:
        raise NotImplementedError

    def cease(self, scene: Scene) -> None:
        """Nothing is broken any more."""
