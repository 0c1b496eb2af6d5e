select treadle.count_minutes()
