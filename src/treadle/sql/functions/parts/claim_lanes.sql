-- Claims jobs from lanes of one priority, and returns where their rows are then. A part of claim_places(), whose settings
-- fix the plans.
--
-- Each lane is one bounded range of idx_jobs_claimable that starts at the lane's floor, so other job types, future jobs,
-- finished jobs, blocked jobs and the dead entries below the floor are never visited.
--
-- If there is one lane, its range is locked as it is read. If there are several, their first jobs are merged and locked in
-- that order until there are enough: a row that is locked but not taken would be skipped by another claim.
--
-- p_running are transactions that were just running. Rows that they have locked are left out while they are read,
-- which is cheaper than trying each lock. That is only a guess: xmax may be the id of something else.
create or replace function treadle.claim_lanes(
    p_worker_id varchar,
    p_now timestamptz,
    p_running xid[],
    p_wanted int,
    p_priority int,
    p_queues varchar[],
    p_job_types varchar[],
    p_starts timestamptz[]
) returns tid[]
language plpgsql
as $$
declare
    -- How many jobs are read at least, of all lanes, before there is another round.
    c_read constant int := 50;
    -- If more index entries were read than expected, the floors have fallen behind.
    c_dead constant int := 500;
    v_read constant bigint := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);
    v_lanes constant int := cardinality(p_queues);
    v_each double precision;
    v_head int; -- how many jobs of each lane are read
    v_after timestamptz := '-infinity'; -- the jobs before this one were read
    v_cut timestamptz; -- the jobs up to this one were read; null: all were
    v_places tid[];
    v_keyed boolean;
    v_claimed tid[];
    v_taken tid[];
begin
    if v_lanes = 1 then
        select array_agg(picked.place), bool_or(picked.keyed)
        into v_places, v_keyed
        from (
            select job.ctid as place, job.key is not null as keyed
            from treadle.jobs as job
            where treadle.is_in_lane(
                    job.queue, job.job_type, job.priority,
                    row(p_queues[1], p_job_types[1], p_priority)::treadle.lane
                  )
              and job.run_at >= p_starts[1]
              and job.run_at <= p_now
              and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
              and not job.xmax = any (p_running)
              and (job.key is null or treadle.is_head_of_key(job.key, job.id))
            order by job.run_at
            limit p_wanted
            for no key update skip locked
        ) as picked;
        v_taken := treadle.mark_claimed(p_worker_id, p_now, v_places, v_keyed);
        if pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read + p_wanted + c_dead then
            perform treadle.raise_floors(p_now, p_running, p_priority, p_queues, p_job_types, p_starts);
        end if;
        return v_taken;
    end if;

    -- Enough of each lane if the jobs are spread evenly.
    v_each := p_wanted::double precision / v_lanes;
    v_head := least(p_wanted, greatest(ceil(v_each + 3 * sqrt(v_each)), c_read / v_lanes));
    loop
        with head as materialized (
            select head.place, head.keyed, head.run_at, lane.nth as lane
            from unnest(p_queues, p_job_types, p_starts) with ordinality as lane (queue, job_type, start, nth)
            cross join lateral (
                select job.ctid as place, job.key is not null as keyed, job.run_at
                from treadle.jobs as job
                where treadle.is_in_lane(
                        job.queue, job.job_type, job.priority,
                        row(lane.queue, lane.job_type, p_priority)::treadle.lane
                      )
                  and job.run_at >= greatest(lane.start, v_after)
                  and job.run_at <= p_now
                  and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
                  and not job.xmax = any (p_running)
                  and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                order by job.run_at
                limit v_head
            ) as head
        ),
        known as materialized (
            select min(lane.last) as cut
            from (
                select max(head.run_at) as last
                from head
                group by head.lane
                having count(*) = v_head
            ) as lane
        )
        select array_agg(picked.place), bool_or(picked.keyed), (select known.cut from known)
        into v_places, v_keyed, v_cut
        from (
            select job.ctid as place, next.keyed
            from (
                select head.place, head.keyed
                from head
                where head.run_at <= (select coalesce(known.cut, 'infinity') from known)
                order by head.run_at
            ) as next
            join treadle.jobs as job on job.ctid = next.place
            -- is_claimable(), for a row that another transaction has just changed. Written so that it matches no index:
            -- with stale statistics, the planner would read all of idx_jobs_claimable.
            where job.status || '' = 'pending'
              and job.holds + 0 = 0
              and job.attempts < job.max_attempts + 0
            limit p_wanted
            for no key update of job skip locked
        ) as picked;

        v_claimed := treadle.mark_claimed(p_worker_id, p_now, v_places, v_keyed);
        v_taken := v_taken || v_claimed;
        p_wanted := p_wanted - cardinality(v_claimed);
        exit when p_wanted = 0 or v_cut is null;

        -- The jobs are spread unevenly, or many are locked: then read more.
        v_after := v_cut;
        v_head := case when 4 * cardinality(v_claimed) < v_head then 4 * v_head else p_wanted end;
    end loop;

    if pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read + 2 * v_lanes * v_head + c_dead then
        perform treadle.raise_floors(p_now, p_running, p_priority, p_queues, p_job_types, p_starts);
    end if;
    return v_taken;
end
$$;

comment on function treadle.claim_lanes(varchar, timestamptz, xid[], int, int, varchar[], varchar[], timestamptz[])
    is 'Claims up to p_wanted due jobs from these lanes, the oldest first, and returns where their rows are then.';
