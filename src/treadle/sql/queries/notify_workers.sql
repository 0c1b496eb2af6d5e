select pg_notify(treadle.channel('work'), %(message)s)
