select pg_catalog.pg_notify(treadle.channel('work'), %(message)s)
