-- Raises the floors of these lanes to their first jobs, for a claim that has read many dead entries: thousands of jobs
-- can be claimed between two ticks. Whatever this passes over (a job that commits now, a row that is locked) is found
-- by the next tick: it searches below every floor whose transaction, or any other, has ended since the last one. See
-- public/tick.sql.
create or replace function treadle.raise_floors(p_now timestamptz, p_running xid[], p_lanes treadle.lane_range[]) returns void
language plpgsql
set treadle.plan = callers
as $$
declare
    c_margin constant interval := '250 milliseconds'; -- see public/tick.sql
begin
    -- An older snapshot does not see the jobs that were committed since.
    if not treadle.is_read_committed() then
        return;
    end if;

    insert into treadle.floors (queue, job_type, priority, partition, floor, xid)
    select
        (range.lane).queue, (range.lane).job_type, (range.lane).priority, (range.lane).partition,
        least(head.run_at, p_now - c_margin), pg_current_xact_id()
    from unnest(p_lanes) as range
    left join lateral (
        select job.run_at
        from treadle.lane_jobs(range.lane, range.start) as job
        where job.run_at <= p_now
          and not job.locked_by = any (p_running)
        order by job.run_at
        limit 1
    ) as head on true
    where least(head.run_at, p_now - c_margin) > range.start;
    if found then
        -- Sessions that keep their lanes read them again: see find_known_lanes().
        perform setval('treadle.lane_clock', (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    end if;
end
$$;
