"""The connections of a worker, in addition to the one that listens. Handlers use none of them."""

from typing import NamedTuple

from treadle.db.reconnecting import ReconnectingConnection


class Connections(NamedTuple):
    claims: ReconnectingConnection
    outcomes: ReconnectingConnection
    maintenance: ReconnectingConnection


def connections(url: str, schema: str, name: str) -> Connections:
    return Connections(*(ReconnectingConnection(url, schema, name) for _ in Connections._fields))
