select treadle.request_notifications('ends', %(span)s)
