"""The bits of jobs.flags, as the SQL functions flag_events() and so on name them."""

from enum import IntFlag


class Flag(IntFlag):
    EVENTS = 1
    LOGS = 2
    STEPS = 4
    DEPENDENCIES = 8
    INPUTS = 16
    WORKFLOW = 32
    MEMBER = 64
    SKIPPED = 128
    SIGNAL = 256
    LIMITED = 512
    ONCE = 1024
    OPENING = 2048
    COUNTING = 4096
    WATCHED = 8192
