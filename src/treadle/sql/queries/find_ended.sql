select treadle.find_finished(%(ids)s::uuid[])
