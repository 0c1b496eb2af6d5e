-- Not if the queue of notifications of the server is almost full: see send_notification().
select pg_catalog.pg_notify(treadle.channel('work'), %(message)s)
where pg_catalog.pg_notification_queue_usage() operator(pg_catalog.<) 0.9
