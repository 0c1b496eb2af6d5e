select treadle.request_notifications('news', %(span)s)
