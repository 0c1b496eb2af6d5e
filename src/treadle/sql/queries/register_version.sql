insert into treadle.worker_versions (worker_id, version)
values (%(worker_id)s, %(version)s)
on conflict do nothing
