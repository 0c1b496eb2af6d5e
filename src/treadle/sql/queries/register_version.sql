with registered as (
    insert into treadle.worker_versions (worker_id, version)
    values (%(worker_id)s, %(version)s)
    on conflict do nothing
)
insert into treadle.deployments (version)
values (%(version)s)
on conflict do nothing
