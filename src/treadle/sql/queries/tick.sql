select treadle.tick()
