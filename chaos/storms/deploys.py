"""Limits that are declared, renamed and changed while jobs run under them."""

import json
import time
from contextlib import suppress
from random import Random
from typing import Any

import psycopg

from chaos.scene import Scene
from chaos.storms.storm import Storm
from chaos.waiting import until

IN_FORCE = """
    select count(*) > 0 from treadle.limits as known
    where known.name = %(name)s
      and coalesce(known.per, '') = %(per)s
      and (known.declared ->> 'amount')::int = %(amount)s
"""


class Deploys(Storm):
    """Whichever limit is in force, the judge knows it as `deployed`, for all jobs of that type or for each tenant. An
    earlier limit that the code no longer has would stay in force for minutes, so an operator lifts it."""

    name = "deploys"
    about = "workers are replaced by ones that declare another limit, and operators change it, while jobs run"
    every = (0.5, 2.0)

    def before_workers(self, scene: Scene) -> None:
        self._number = 0
        self._limit: dict[str, Any] = {"name": "deployed 0", "amount": 5, "per": ""}
        self._file = scene.folder / "limit.json"
        self._file.write_text(json.dumps(self._limit))
        scene.environment["TREADLE_CHAOS_LIMIT"] = str(self._file)
        self._note(scene, time.monotonic(), 5)

    def inject(self, scene: Scene, rng: Random) -> None:
        if rng.random() < 0.7:
            self._change(scene, rng)
        else:
            self._deploy(scene, rng)

    def _change(self, scene: Scene, rng: Random) -> None:
        """By an operator, of the limit that is in force."""
        invoked, amount = time.monotonic(), rng.randint(1, 6)
        scene.ledger.note("fault", did="limit changed")
        self._set(scene, self._limit["name"], amount)
        self._note(scene, invoked, amount)

    def _deploy(self, scene: Scene, rng: Random) -> None:
        """A new name, or a new way to count and a new amount."""
        invoked, former = time.monotonic(), self._limit
        self._number += 1
        per = rng.choice(["", "tenant"])
        self._limit = {"name": f"deployed {self._number}", "amount": rng.randint(2, 6), "per": per}
        self._file.write_text(json.dumps(self._limit))
        scene.ledger.note("fault", did="deploy of a limit")
        for old in list(filter(None, scene.workers)):  # while the others go on
            old.terminate()
            until(lambda old=old: not old.alive(), lambda: "the worker ends", 90)
            until(lambda: self._is_in_force(scene), lambda: f"{self._limit} is in force", 90)
        self._set(scene, former["name"], None)
        self._note(scene, invoked, self._limit["amount"])

    def _set(self, scene: Scene, name: str, amount: int | None) -> None:
        def is_done() -> bool:
            with suppress(psycopg.Error), scene.server.connect() as connection:
                connection.execute("select set_limit(%s, %s)", [name, amount])
                return True
            return False

        until(is_done, lambda: "the limit is changed", 60)

    def _is_in_force(self, scene: Scene) -> bool:
        with suppress(psycopg.Error), scene.server.connect() as connection:
            return connection.execute(IN_FORCE.encode(), self._limit).fetchone() == (True,)
        return False

    def _note(self, scene: Scene, invoked: float, amount: int) -> None:
        per_tenant = self._limit["per"] == "tenant"
        for name, value in ("deployed", None if per_tenant else amount), ("tenant", amount if per_tenant else None):
            scene.ledger.note("limit", name=name, amount=value, invoked=invoked)
