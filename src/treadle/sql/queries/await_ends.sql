select treadle.await_ends(%(span)s)
