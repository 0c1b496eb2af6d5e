select treadle.find_ended(%(ids)s::uuid[])
