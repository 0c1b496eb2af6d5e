select pruned, reached
from treadle.prune_jobs(%(status)s, %(age)s, %(limit)s, %(after)s)
