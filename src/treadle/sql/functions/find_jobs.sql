-- A page of a list of jobs. Which index leads, and so the order, depends on the status that is asked for:
--
--   completed, failed, cancelled   idx_jobs_finished, the newest end first
--   claimed, running               idx_jobs_worker, the newest claim first
--   pending                        by lanes, in the order in which they are claimed: find_pending()
--   held (pending, but must wait)  idx_jobs_held, newest first
--   any of the last four of a key  idx_jobs_key: who runs, whose turn it is, who is held; each oldest first
--   none                           the primary key, newest first: ids are ordered by time
--
-- p_rank, p_at and p_id are the place in that order after which the page begins. Whatever else is asked for is looked for
-- in the next p_look jobs, or in fewer if p_bytes of payload were searched. Nothing is read beyond a full page.
--
-- Returns the jobs that fit, one more than p_limit if there are more; and, with `last`, the job at which the look
-- stopped, which need not fit.
--
-- The planner may not choose: from statistics of yesterday it would sort a million jobs that have failed since.
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
    p_bytes bigint default 8000000
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
-- The status has to be known when the statement is planned: it proves the condition of the index.
set plan_cache_mode = force_custom_plan
as $$
declare
    v_search constant text := lower(p_search);
begin
    if p_exact is not null then
        return query
        select job.id, null::int, null::timestamptz, true, false, 1::bigint
        from treadle.jobs as job
        where job.id = p_exact
          and case p_status
                when 'held' then job.status = 'pending' and job.holds <> 0
                when 'pending' then job.status = 'pending' and job.holds = 0
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

    if p_status = 'pending' and p_key is null then
        return query
        select *
        from treadle.find_pending(p_job_type, p_queue, p_worker_id, v_search, p_rank, p_at, p_id, p_limit, p_look, p_bytes);
        return;
    end if;

    return query
    select step.id, step.rank, step.at, step.fits, step.last, step.nth
    from (
        select
            walk.id,
            walk.rank,
            walk.at,
            walk.nth,
            coalesce(
                walk.spent - walk.bytes < p_bytes
                    and case p_status
                        when 'held' then walk.status = 'pending' and walk.holds <> 0
                        when 'pending' then walk.status = 'pending' and walk.holds = 0
                        else walk.status = coalesce(p_status, walk.status)
                    end
                    and (p_job_type is null or walk.job_type = p_job_type)
                    and (p_queue is null or walk.queue = p_queue)
                    and (p_worker_id is null or walk.worker_id = p_worker_id)
                    and (p_key is null or walk.key = p_key)
                    and (
                        v_search is null
                        or strpos(lower(walk.data::text), v_search) > 0
                        or strpos(lower(walk.last_error), v_search) > 0
                    ),
                false
            ) as fits,
            walk.nth = p_look
                or walk.spent >= p_bytes and walk.spent - walk.bytes < p_bytes as last
        from (
            select
                seen.*,
                row_number() over so_far as nth,
                sum(seen.bytes) over so_far as spent
            from (
                select
                    job.*,
                    -- As stored: what is out of line is not fetched to be measured.
                    case
                        when v_search is null then 0
                        else pg_column_size(job.data) + coalesce(pg_column_size(job.last_error), 0)
                    end as bytes
                from (
                    -- Of these only the one that is asked for is planned.
                    (
                        select
                            job.id, null::int as rank, job.finished_at as at, job.status, job.holds, job.job_type,
                            job.queue, job.worker_id, job.key, job.data, job.last_error
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
                            job.id, null, coalesce(job.claimed_at, '-infinity') as at, job.status, job.holds, job.job_type,
                            job.queue, job.worker_id, job.key, job.data, job.last_error
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
                            job.id, null, null, job.status, job.holds, job.job_type,
                            job.queue, job.worker_id, job.key, job.data, job.last_error
                        from treadle.jobs as job
                        where p_status = 'held'
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
                            job.id, case job.status when 'pending' then 1 + (job.holds & 1) else 0 end, null, job.status,
                            job.holds, job.job_type, job.queue, job.worker_id, job.key, job.data, job.last_error
                        from treadle.jobs as job
                        where p_status in ('pending', 'held', 'claimed', 'running')
                          and job.key = p_key
                          and job.status in ('pending', 'claimed', 'running')
                          and case job.status when 'pending' then 1 + (job.holds & 1) else 0 end
                                >= case p_status when 'pending' then 1 when 'held' then 1 else 0 end
                          and case job.status when 'pending' then 1 + (job.holds & 1) else 0 end
                                <= case p_status when 'pending' then 1 when 'held' then 2 else 0 end
                          and (
                                p_id is null
                                or (case job.status when 'pending' then 1 + (job.holds & 1) else 0 end, job.id)
                                    > (p_rank, p_id)
                          )
                        order by job.key, case job.status when 'pending' then 1 + (job.holds & 1) else 0 end, job.id
                        limit p_look
                    )
                    union all
                    (
                        select
                            job.id, null, null, job.status, job.holds, job.job_type,
                            job.queue, job.worker_id, job.key, job.data, job.last_error
                        from treadle.jobs as job
                        where p_status is null
                          and (p_id is null or job.id < p_id)
                        order by job.id desc
                        limit p_look
                    )
                ) as job
            ) as seen
            window so_far as (rows between unbounded preceding and current row)
        ) as walk
    ) as step
    where step.fits or step.last
    limit p_limit + 1;
end
$$;

comment on function treadle.find_jobs(varchar, varchar, varchar, varchar, varchar, text, uuid, int, timestamptz, uuid, int, int, bigint)
    is 'A page of a list of jobs: those that fit, and with "last" where the look stopped. Its cost does not grow with the table.';
