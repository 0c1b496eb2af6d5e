"""The base class of storms. A storm injects one kind of fault again and again, and removes it at the end."""

from random import Random
from typing import ClassVar

from chaos.scene import Scene


class Storm:
    name: ClassVar[str]
    about: ClassVar[str]
    every: ClassVar[tuple[float, float]] = (1.0, 3.0)
    """Minimum and maximum seconds between two faults."""

    def missing(self) -> str | None:
        """Return what this machine lacks to run the storm, or None."""
        return None

    def before_server(self, scene: Scene) -> None:
        """Called before the server starts."""

    def before_workers(self, scene: Scene) -> None:
        """Called before the workers and producers start."""

    def inject(self, scene: Scene, rng: Random) -> None:
        """Inject one fault."""
        raise NotImplementedError

    def end(self, scene: Scene) -> None:
        """Remove all faults that are still in effect."""
