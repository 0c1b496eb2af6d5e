-- Only events before which no running transaction can still add one. A long transaction delays them.
select transaction::text, job_id, number, job_type, name, case when wanted then data::text end, happened_at, attempt
from (
    select
        *,
        (%(job_types)s::varchar[] is null or job_type operator(pg_catalog.=) any (%(job_types)s::varchar[]))
            and (%(names)s::varchar[] is null or name operator(pg_catalog.=) any (%(names)s::varchar[])) as wanted
    from treadle.events
    where transaction operator(pg_catalog.<) pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())
      and (transaction, job_id, number) operator(pg_catalog.>) (%(transaction)s::xid8, %(job_id)s::uuid, %(number)s::int)
    order by transaction, job_id, number
    limit %(limit)s
) as event
order by transaction, job_id, number
