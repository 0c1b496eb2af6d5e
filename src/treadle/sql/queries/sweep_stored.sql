select swept, more, files, places
from treadle.sweep_stored(%(grace)s, %(limit)s)
