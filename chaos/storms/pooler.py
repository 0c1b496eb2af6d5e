"""PgBouncer in transaction mode between the workers and the server: no LISTEN, and sessions that are nobody's."""

import shutil
from contextlib import suppress

import psycopg

from chaos.scene import Scene
from chaos.servers import bouncer
from chaos.storms.storm import Chance, Storm


class Pooler(Storm):
    name = "pooler"
    about = "PgBouncer in transaction mode before the server, which throws connections out now and then"
    every = (1.0, 3.0)

    def missing(self) -> str | None:
        return None if shutil.which("pgbouncer") else "pgbouncer is not installed (Debian: apt-get install pgbouncer)"

    def prepare(self, scene: Scene) -> None:
        # Between PgBouncer and its clients there is no proxy: cuts of the network do not reach them.
        scene.through = lambda _: scene.stack.enter_context(bouncer(scene.server.url, scene.folder, "transaction"))

    def strike(self, scene: Scene, chance: Chance) -> None:
        query = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and random() < %s"
        with suppress(psycopg.Error), scene.server.connect() as connection:
            number = len(connection.execute(query, [chance.choice([0.1, 0.5])]).fetchall())
            scene.ledger.note("fault", did="terminated backends", number=number)
