"""PgBouncer in transaction mode in front of the server: LISTEN does not work, and sessions are shared."""

import shutil
from contextlib import suppress
from random import Random

import psycopg

from chaos.scene import Scene
from chaos.servers import bouncer
from chaos.storms.storm import Storm


class Pooler(Storm):
    name = "pooler"
    about = "PgBouncer in transaction mode in front of the server, whose backends are terminated from time to time"
    every = (1.0, 3.0)

    def missing(self) -> str | None:
        return None if shutil.which("pgbouncer") else "pgbouncer is not installed (Debian: apt-get install pgbouncer)"

    def before_server(self, scene: Scene) -> None:
        # PgBouncer replaces the proxy, so storms of the network have no effect on its clients.
        scene.client_url = lambda _: scene.stack.enter_context(bouncer(scene.server.url, scene.folder, "transaction"))

    def inject(self, scene: Scene, rng: Random) -> None:
        query = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and random() < %s"
        with suppress(psycopg.Error), scene.server.connect() as connection:
            number = len(connection.execute(query, [rng.choice([0.1, 0.5])]).fetchall())
            scene.ledger.note("fault", did="terminated backends", number=number)
