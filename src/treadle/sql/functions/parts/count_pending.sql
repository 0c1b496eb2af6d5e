-- How many of the jobs that a limit is for, or of one value of its "per", wait; counted up to p_most, from the floors
-- of the lanes. Of jobs that wait for an earlier one of their key, at most c_blocked are looked at.
create or replace function treadle.count_pending(p_name varchar, p_per varchar, p_key varchar, p_most int) returns int
language plpgsql stable
set treadle.plan = index_ranges
as $$
declare
    c_blocked constant int := 2000;
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_count int;
    v_blocked int;
begin
    select count(*)
    into v_count
    from (
        select
        from treadle.limit_lanes(p_name, p_per, p_key) as lane
        left join lateral treadle.safe_floor(lane, v_safe) as bound on true
        cross join lateral (
            -- With a limit of its own: otherwise the planner could begin with the jobs.
            select
            from treadle.lane_jobs(lane, coalesce(bound.floor, '-infinity'))
            limit p_most
        ) as job
        limit p_most
    ) as counted;

    select count(*)
    into v_blocked
    from (
        select
        from (
            select job.queue, job.job_type, job.partition
            from treadle.jobs as job
            where job.status = 'pending'
              and job.holds <> 0
            order by job.id
            limit c_blocked
        ) as blocked
        where treadle.limit_key(p_per, blocked.partition) = p_key
          and exists (
                select
                from treadle.limit_targets as target
                where target.name = p_name
                  and target.job_type in (blocked.job_type, '')
                  and target.queue in (blocked.queue, '')
          )
        limit p_most - v_count
    ) as blocked;
    return v_count + v_blocked;
end
$$;
