"""Priorities by name. Any int works; higher runs first."""

from enum import IntEnum


class Priority(IntEnum):
    EXPLICIT = 150  # a person asked for it
    DISCOVERED = 100  # the system found it; the default
    BACKFILL = 30  # whenever there is room
