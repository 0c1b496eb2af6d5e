-- One page of a list of jobs. The status determines which index is read, and so the order:
--
--   completed, failed, cancelled      idx_jobs_finished: the last finished first
--   claimed, running                  idx_jobs_worker: the last claimed first
--   pending                           by lanes, in the order in which they will be claimed: find_claimable()
--   later (pending, not due yet)      "
--   blocked (pending, must wait)      idx_jobs_blocked: the newest first; version 0.1 calls it held
--   any of the last five, with a key  idx_jobs_key: running, next to run, blocked; of each the oldest first
--   none                              the primary key: the newest first, because ids are ordered by time
--
-- The page starts after the place in that order that p_rank, p_at and p_id give. The other filters are applied to the next
-- p_look jobs, or to fewer if those take longer than p_patience. Nothing is read beyond a full page.
--
-- Returns the jobs that match, one more than p_limit if there are more. A row with `last` is where the search stopped; it
-- need not match.
--
-- The settings fix the plan: with statistics of the day before, PostgreSQL 15 would sort a million jobs that failed since.
create or replace function treadle.find_jobs(
    p_status varchar default null,
    p_job_type varchar default null,
    p_queue varchar default null,
    p_worker_id varchar default null,
    p_key varchar default null,
    p_search text default null,
    p_exact uuid default null,
    p_rank int default null,
    p_at timestamptz default null,
    p_id uuid default null,
    p_limit int default 100,
    p_look int default 20000,
    p_patience interval default '100 milliseconds'
) returns table (id uuid, rank int, at timestamptz, fits boolean, last boolean, looked bigint)
language plpgsql stable
rows 100
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_indexscan = on
set enable_incremental_sort = on
set max_parallel_workers_per_gather = 0
set jit = off
-- The status must be known when the statement is planned: it proves the predicate of the index.
set plan_cache_mode = force_custom_plan
as $$
declare
    -- How many jobs are read between two checks of the clock.
    c_stride constant int := 50;
    v_end constant timestamptz := clock_timestamp() + p_patience;
    v_search constant text := lower(p_search);
    -- A role that may not read payloads does not search them.
    v_payloads constant boolean := has_column_privilege('treadle.jobs', 'data', 'select');
    v_found int := 0;
    v_job record;
    -- Rows are fetched one at a time, so that nothing is read ahead of the check of the clock.
    v_walk no scroll cursor for
        select
            walk.id,
            walk.rank,
            walk.at,
            walk.fits,
            walk.in_error,
            walk.nth
        from (
            select
                read.id,
                read.rank,
                read.at,
                read.nth,
                v_search is null or coalesce(strpos(lower(read.last_error), v_search) > 0, false) as in_error,
                case p_status
                    when 'blocked' then read.status = 'pending' and read.holds <> 0
                    when 'pending' then read.status = 'pending' and read.holds = 0
                    when 'later' then read.status = 'pending' and read.holds = 0 and read.run_at > now()
                    else read.status = coalesce(p_status, read.status)
                end
                    and (p_job_type is null or read.job_type = p_job_type)
                    and (p_queue is null or read.queue = p_queue)
                    and (p_worker_id is null or read.worker_id = p_worker_id)
                    and (p_key is null or read.key = p_key) as fits
            from (
                select
                    job.*,
                    row_number() over () as nth
                from (
                    -- Only the branch of p_status is planned.
                    (
                        select
                            job.id, null::int as rank, job.finished_at as at, job.status, job.holds, job.run_at, job.job_type,
                            job.queue, job.worker_id, job.key, job.last_error
                        from treadle.jobs as job
                        where p_status in ('completed', 'failed', 'cancelled')
                          and job.status = p_status
                          and (
                                p_id is null
                                or job.finished_at <= p_at and (job.finished_at, job.id) < (p_at, p_id)
                          )
                        order by job.finished_at desc, job.id desc
                        limit p_look
                    )
                    union all
                    (
                        select
                            job.id, null, coalesce(job.claimed_at, '-infinity') as at, job.status, job.holds, job.run_at, job.job_type,
                            job.queue, job.worker_id, job.key, job.last_error
                        from treadle.jobs as job
                        where p_status in ('claimed', 'running')
                          and p_key is null
                          and job.status in ('claimed', 'running')
                          and job.status = p_status
                          and (p_worker_id is null or job.worker_id = p_worker_id)
                          and (p_id is null or (coalesce(job.claimed_at, '-infinity'), job.id) < (p_at, p_id))
                        order by coalesce(job.claimed_at, '-infinity') desc, job.id desc
                        limit p_look
                    )
                    union all
                    (
                        select
                            job.id, null, null, job.status, job.holds, job.run_at, job.job_type,
                            job.queue, job.worker_id, job.key, job.last_error
                        from treadle.jobs as job
                        where p_status = 'blocked'
                          and p_key is null
                          and job.status = 'pending'
                          and job.holds <> 0
                          and (p_id is null or job.id < p_id)
                        order by job.id desc
                        limit p_look
                    )
                    union all
                    (
                        select
                            job.id, treadle.key_rank(job.status, job.holds), null, job.status,
                            job.holds, job.run_at, job.job_type, job.queue, job.worker_id, job.key, job.last_error
                        from treadle.jobs as job
                        where p_status in ('pending', 'later', 'blocked', 'claimed', 'running')
                          and job.key = p_key
                          and job.status in ('pending', 'claimed', 'running')
                          and treadle.key_rank(job.status, job.holds)
                                >= case when p_status in ('claimed', 'running') then 0 else 1 end
                          and treadle.key_rank(job.status, job.holds)
                                <= case when p_status in ('claimed', 'running') then 0 when p_status = 'blocked' then 2 else 1 end
                          and (
                                p_id is null
                                or (treadle.key_rank(job.status, job.holds), job.id)
                                    > (p_rank, p_id)
                          )
                        order by job.key, treadle.key_rank(job.status, job.holds), job.id
                        limit p_look
                    )
                    union all
                    (
                        select
                            job.id, null, null, job.status, job.holds, job.run_at, job.job_type,
                            job.queue, job.worker_id, job.key, job.last_error
                        from treadle.jobs as job
                        where p_status is null
                          and (p_id is null or job.id < p_id)
                        order by job.id desc
                        limit p_look
                    )
                ) as job
            ) as read
        ) as walk
        where walk.fits
           or walk.nth = p_look
           or walk.nth % c_stride = 0;
begin
    if p_status = 'held' then
        p_status := 'blocked';
    end if;

    if p_exact is not null then
        return query
        select job.id, null::int, null::timestamptz, true, false, 1::bigint
        from treadle.jobs as job
        where job.id = p_exact
          and case p_status
                when 'blocked' then job.status = 'pending' and job.holds <> 0
                when 'pending' then job.status = 'pending' and job.holds = 0
                when 'later' then job.status = 'pending' and job.holds = 0 and job.run_at > now()
                else job.status = coalesce(p_status, job.status)
              end
          and (p_job_type is null or job.job_type = p_job_type)
          and (p_queue is null or job.queue = p_queue)
          and (p_worker_id is null or job.worker_id = p_worker_id)
          and (p_key is null or job.key = p_key);
        if found then
            return;
        end if;
    end if;

    if p_status in ('pending', 'later') and p_key is null then
        return query
        select *
        from treadle.find_claimable(
            p_job_type, p_queue, p_worker_id, v_search, v_payloads,
            case p_status when 'later' then now() else '-infinity' end, p_rank, p_at, p_id, p_limit, p_look, v_end
        );
        return;
    end if;

    open v_walk;
    -- From here on only payloads are searched, one by one: that statement need not be planned each time.
    perform set_config('plan_cache_mode', 'force_generic_plan', true);
    loop
        fetch v_walk into v_job;
        exit when not found;

        id := v_job.id;
        rank := v_job.rank;
        at := v_job.at;
        fits := coalesce(v_job.fits, false) and (v_job.in_error or v_payloads);
        if fits and not v_job.in_error then
            fits := exists (
                select
                from treadle.jobs as job
                where job.id = v_job.id
                  and strpos(lower(job.data::text), v_search) > 0
            );
        end if;
        -- A page whose jobs all match is not cut short: its limit bounds the cost, unless the limit is that of a count.
        last := v_job.nth = p_look
            or (v_search is not null or not fits or p_limit >= p_look) and coalesce(clock_timestamp() > v_end, false);
        looked := v_job.nth;
        if fits or last then
            return next;
        end if;
        if fits then
            v_found := v_found + 1;
        end if;
        exit when last or v_found > p_limit;
    end loop;
end
$$;

comment on function treadle.find_jobs(varchar, varchar, varchar, varchar, varchar, text, uuid, int, timestamptz, uuid, int, int, interval)
    is 'One page of a list of jobs: those that match, and with "last" where the search stopped. The cost does not grow with the table.';
