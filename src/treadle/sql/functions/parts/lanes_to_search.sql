-- Every lane that may have jobs, once, and where to start to search it: at a floor that is safe (see safe_floor), so
-- that jobs which were committed late are found. Lanes that are dormant and have no jobs are left out: they are about
-- to be deleted. The planner inlines this function.
create or replace function treadle.lanes_to_search(p_safe treadle.ticks)
returns table (lane treadle.lane, changed_at timestamptz, start timestamptz)
language sql stable
as $$
    select listed.lane, listed.changed_at, coalesce(bound.floor, '-infinity')
    from (
        select
            row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane as lane,
            max(known.changed_at) as changed_at
        from treadle.lanes as known
        where treadle.is_listed(known.dormant_xid, known.limit_name) or known.wakes_at is not null
        group by known.queue, known.job_type, known.priority, known.partition
    ) as listed
    left join lateral treadle.safe_floor(listed.lane, p_safe) as bound on true
$$;
