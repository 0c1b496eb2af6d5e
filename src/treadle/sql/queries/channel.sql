select treadle.channel(%(kind)s)
