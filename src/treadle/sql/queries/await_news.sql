select treadle.await_news(%(span)s)
