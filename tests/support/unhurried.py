"""For programs that forks.py runs: on a busy machine, a worker may not renew its usual lease in time."""

from treadle.worker import options

options.LEASE_SECONDS = 30
