-- Every lane that may have jobs, once. Lanes that are dormant and have no jobs are left out: they are about to be
-- deleted.
create or replace function treadle.distinct_lanes()
returns table (lane treadle.lane, changed_at timestamptz)
language sql stable
as $$
    select row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane, max(known.changed_at)
    from treadle.lanes as known
    where treadle.is_listed(known.dormant_xid, known.limit_name) or known.wakes_at is not null
    group by known.queue, known.job_type, known.priority, known.partition
$$;
