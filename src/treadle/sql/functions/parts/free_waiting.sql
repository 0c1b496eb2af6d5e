-- Lets jobs run that waited for others, whose rows are locked. They are due from now on, in the order of their ids, and
-- get the results that are their arguments; those of jobs that did not complete are null. There may be a hundred
-- thousand of them: what the trigger change_job would do for each is done here for all.
create or replace function treadle.free_waiting(p_ids uuid[]) returns void
language plpgsql
set treadle.plan = nested_loops
as $$
declare
    c_placed constant text := 'treadle' || '.placed';
    v_now timestamptz;
    v_due timestamptz;
begin
    -- First the transaction id, then the clock: the tick relies on that order (see public/tick.sql).
    perform pg_current_xact_id();
    v_now := clock_timestamp();

    perform set_config(c_placed, 'on', true);
    update treadle.jobs as job
    set holds = job.holds & ~treadle.blocked_by_jobs(),
        run_at = greatest(job.run_at, v_now + (freed.nth - cardinality(p_ids)) * interval '1 microsecond'),
        data = case
            when job.flags & treadle.flag_inputs() <> 0 then job.data || treadle.results_for(job.id)
            else job.data
        end
    from unnest(p_ids) with ordinality as freed (id, nth)
    where job.id = freed.id;

    -- Those that were enqueued before there was a limit by their arguments.
    if exists (select from treadle.limit_targets) then
        perform treadle.set_partitions(array(
            select job.id
            from treadle.jobs as job
            where job.id = any (p_ids)
              and job.partition = ''
        ));
    end if;
    perform set_config(c_placed, '', true);

    insert into treadle.lanes (queue, job_type, priority, partition)
    select lane.queue, lane.job_type, lane.priority, lane.partition
    from (
        select job.queue, job.job_type, job.priority, job.partition, min(job.run_at) as run_at
        from treadle.jobs as job
        where job.id = any (p_ids)
        group by job.queue, job.job_type, job.priority, job.partition
    ) as lane
    cross join lateral treadle.lane_entry(
        row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane, lane.run_at
    ) as entry
    where not entry.is_listed;

    select min(job.run_at)
    into v_due
    from treadle.jobs as job
    where job.id = any (p_ids);
    perform treadle.wake_workers(v_due);
end
$$;
