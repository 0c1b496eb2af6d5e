select id, outcome, status
from treadle.operate(%(action)s, %(ids)s::uuid[], %(actor)s, %(reason)s, %(priority)s)
