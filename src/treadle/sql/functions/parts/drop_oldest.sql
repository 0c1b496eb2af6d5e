-- Cancels the oldest waiting jobs that a limit is for: those of the lowest priority first, and none of a higher
-- priority than p_priority. Not jobs that a claim has locked, nor those that wait for an earlier one of their key.
-- Returns whether there were enough; otherwise none is cancelled.
create or replace function treadle.drop_oldest(
    p_name varchar,
    p_per varchar,
    p_key varchar,
    p_priority int,
    p_count int,
    p_kept uuid[]
) returns boolean
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_spare constant int := 100; -- instead of those that are locked
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_priority int;
    v_ids uuid[] := '{}';
begin
    for v_priority in
        select distinct lane.priority
        from treadle.limit_lanes(p_name, p_per, p_key) as lane
        where lane.priority <= p_priority
        order by lane.priority
    loop
        v_ids := v_ids || array(
            select job.id
            from treadle.jobs as job
            where job.id = any (array(
                    select oldest.id
                    from treadle.limit_lanes(p_name, p_per, p_key) as lane
                    left join lateral treadle.safe_floor(lane, v_safe) as bound on true
                    cross join lateral (
                        select waiting.id, waiting.run_at
                        from treadle.lane_jobs(lane, coalesce(bound.floor, '-infinity')) as waiting
                        where p_kept is null or waiting.id <> all (p_kept)
                        order by waiting.run_at
                        limit p_count + c_spare
                    ) as oldest
                    where lane.priority = v_priority
                    order by oldest.run_at
                    limit p_count + c_spare
                  ))
              and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
            order by job.run_at
            limit p_count - cardinality(v_ids)
            for update skip locked
        );
        exit when cardinality(v_ids) >= p_count;
    end loop;
    if cardinality(v_ids) < p_count then
        return false;
    end if;

    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        last_error = format('dropped: %s allows no more jobs to wait', p_name)
    where job.id = any (v_ids);

    perform treadle.announce(v_ids);
    return true;
end
$$;
