-- The jobs with a value in the payload, the newest first, along the index that has_payload_index() has found, for
-- find_jobs().
--
-- `rank` and `at` are those of the job in the list of its status: if the index is dropped while somebody turns pages,
-- the next page continues there.
create or replace function treadle.find_by_payload(
    p_path text[],
    p_value jsonb,
    p_status varchar,
    p_job_type varchar,
    p_queue varchar,
    p_worker_id varchar,
    p_key varchar,
    p_search text,
    p_digits text,
    p_since timestamptz,
    p_until timestamptz,
    p_first uuid,
    p_last uuid,
    p_id uuid,
    p_limit int,
    p_look int,
    p_end timestamptz,
    p_also jsonb
) returns table (id uuid, rank int, at timestamptz, fits boolean, last boolean, looked bigint)
language plpgsql stable
rows 100
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_indexscan = on
set max_parallel_workers_per_gather = 0
set jit = off
-- The path must be known when the statement is planned: it is part of the index.
set plan_cache_mode = force_custom_plan
as $$
declare
    v_found int := 0;
    v_job record;
begin
    looked := 0;
    for v_job in
        select
            job.id, job.status, job.holds, job.run_at, job.job_type, job.queue, job.worker_id, job.key, job.priority,
            job.claimed_at, job.finished_at,
            job.data #> p_path = p_value
                and (p_also is null or treadle.has_values(job.data, p_also))
                and (
                    p_search is null
                    or coalesce(strpos(lower(job.last_error), p_search) > 0, false)
                    or p_digits is not null and treadle.has_digits(job.id, p_digits)
                    or strpos(lower(job.data::text), p_search) > 0
                ) as in_payload
        from treadle.jobs as job
        where jsonb_hash_extended(job.data #> p_path, 0) = jsonb_hash_extended(p_value, 0)
          and job.data #> p_path is not null
          and (p_id is null or job.id < p_id)
          and (p_first is null or job.id >= p_first)
          and (p_last is null or job.id < p_last)
        order by job.id desc
        limit p_look
    loop
        looked := looked + 1;
        id := v_job.id;
        fits := coalesce(
            v_job.in_payload
            and case p_status
                when 'blocked' then v_job.status = 'pending' and v_job.holds <> 0
                when 'pending' then v_job.status = 'pending' and v_job.holds = 0
                when 'later' then v_job.status = 'pending' and v_job.holds = 0 and v_job.run_at > now()
                else v_job.status = coalesce(p_status, v_job.status)
            end
            and (p_job_type is null or v_job.job_type = p_job_type)
            and (p_queue is null or v_job.queue = p_queue)
            and (p_worker_id is null or v_job.worker_id = p_worker_id)
            and (p_key is null or v_job.key = p_key)
            and (p_first is not null or p_since is null or v_job.finished_at >= p_since)
            and (p_last is not null or p_until is null or v_job.finished_at < p_until),
            false
        );
        if p_status in ('pending', 'later', 'blocked', 'claimed', 'running') and p_key is not null then
            rank := treadle.key_rank(v_job.status, v_job.holds);
        elsif p_status in ('pending', 'later') then
            rank := v_job.priority;
            at := v_job.run_at;
        elsif p_status in ('claimed', 'running') then
            at := coalesce(v_job.claimed_at, '-infinity');
        elsif p_status in ('completed', 'failed', 'cancelled') then
            at := coalesce(v_job.finished_at, '-infinity');
        end if;
        last := looked = p_look or coalesce(clock_timestamp() > p_end, false);
        if fits or last then
            return next;
        end if;
        v_found := v_found + fits::int;
        exit when last or v_found > p_limit;
    end loop;
end
$$;
