-- One page of a list of jobs: those that match, and with "last" where the search stopped. The cost does not grow with
-- the table.
--
-- The status determines which index is read, and so the order:
--
--   completed, failed, cancelled      idx_jobs_finished: the last finished first
--   claimed, running                  idx_jobs_worker: the last claimed first
--   pending                           by lanes, in the order in which they will be claimed: find_claimable()
--   later (pending, not due yet)      "
--   blocked (pending, must wait)      idx_jobs_blocked: the newest first
--   any of the last five, with a key  idx_jobs_key: running, next to run, blocked; of each the oldest first
--   none                              the primary key: the newest first, because ids are ordered by time
--
-- p_since (inclusive) and p_until select finished jobs by finished_at, and the others by the time in their id. p_search
-- is a text in the payload or in the error, or at least 8 first or last digits of an id. p_path and p_value select by a
-- value in the payload; without p_value, a value must exist. p_also has further conditions, as has_values() reads them,
-- of which all must hold; p_path is needed with it. If a role may not read payloads, or p_payloads is false, the
-- payload is not searched, and p_path is refused. If has_payload_index() finds an index for one of the paths, the order
-- is the newest first, whatever the status.
--
-- The page starts after the place in that order that p_rank, p_at and p_id give. The other filters are applied to the
-- next p_look jobs, or to fewer if those take longer than p_patience. Returns the jobs that match, one more than
-- p_limit if there are more. A row with `last` is where the search stopped; it need not match.
--
-- The settings fix the plan: with statistics of the day before, PostgreSQL 15 would sort a million jobs that failed
-- since.
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
    p_patience interval default '100 milliseconds',
    p_since timestamptz default null,
    p_until timestamptz default null,
    p_path text[] default null,
    p_value jsonb default null,
    p_payloads boolean default true,
    p_also jsonb default null
) returns table (id uuid, rank int, at timestamptz, fits boolean, last boolean, examined bigint)
language plpgsql stable
rows 100
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
    v_digits constant text := treadle.id_digits(p_search);
    -- A role that may not read payloads does not search them.
    v_payloads constant boolean := p_payloads and has_column_privilege('treadle.jobs', 'data', 'select');
    v_finished constant boolean := coalesce(p_status in ('completed', 'failed', 'cancelled'), false);
    -- The range of ids that were made in this time.
    v_first constant uuid := case when not v_finished then treadle.id_at(p_since) end;
    v_last constant uuid := case when not v_finished then treadle.id_at(p_until) end;
    -- How many payloads one statement searches: one by one takes twice as long.
    c_batch constant int := 32;
    v_batch int := 1;
    v_also jsonb;
    v_place int;
    v_size int;
    v_from int;
    v_ids uuid[];
    v_ranks int[];
    v_times timestamptz[];
    v_fit boolean[];
    v_in_text boolean[];
    v_numbers bigint[];
    v_matching int[];
    v_start timestamptz;
    v_found int := 0;
    v_job record;
    v_walk refcursor;
begin
    if p_path is not null and not v_payloads then
        raise insufficient_privilege using message = 'payloads cannot be filtered: this role may not read them';
    end if;

    if p_exact is not null and p_path is null then
        return query
        select job.id, null::int, null::timestamptz, true, false, 1::bigint
        from treadle.jobs as job
        where job.id = p_exact
          and treadle.has_status(p_status, job.status, job.holds, job.run_at)
          and (p_job_type is null or job.job_type = p_job_type)
          and (p_queue is null or job.queue = p_queue)
          and (p_worker_id is null or job.worker_id = p_worker_id)
          and (p_key is null or job.key = p_key)
          and (v_first is null or job.id >= v_first)
          and (v_last is null or job.id < v_last)
          and (not v_finished or p_since is null or job.finished_at >= p_since)
          and (not v_finished or p_until is null or job.finished_at < p_until);
        if found then
            return;
        end if;
    end if;

    -- An index for any of the conditions will do: that one becomes the first.
    if p_also is not null and (p_value is null or not treadle.has_payload_index(p_path)) then
        select also.condition, (also.nth - 1)::int
        into v_also, v_place
        from jsonb_array_elements(p_also) with ordinality as also (condition, nth)
        where also.condition ? 'value'
          and treadle.has_payload_index(array(select jsonb_array_elements_text(also.condition -> 'path')))
        order by also.nth
        limit 1;
        if found then
            p_also := (p_also - v_place)
                || jsonb_build_array(jsonb_build_object('path', p_path) || case
                    when p_value is null then '{}'::jsonb
                    else jsonb_build_object('value', p_value)
                end);
            p_path := array(select jsonb_array_elements_text(v_also -> 'path'));
            p_value := v_also -> 'value';
        end if;
    end if;

    -- Rows are fetched one at a time, so that nothing is read ahead of the check of the clock.
    if p_value is not null and treadle.has_payload_index(p_path) then
        -- Rank and at are those of the list of the status: if the index is dropped while somebody turns pages, the next
        -- page continues there.
        open v_walk no scroll for
        select
            read.id,
            case
                when p_status in ('pending', 'later', 'blocked', 'claimed', 'running') and p_key is not null
                    then treadle.key_rank(read.status, read.holds)
                when p_status in ('pending', 'later') then read.priority
            end as rank,
            case
                when v_finished then coalesce(read.finished_at, '-infinity')
                when p_status in ('pending', 'later') and p_key is null then read.run_at
                when p_status in ('claimed', 'running') and p_key is null then coalesce(read.claimed_at, '-infinity')
            end as at,
            (
                treadle.has_status(p_status, read.status, read.holds, read.run_at)
                and (p_job_type is null or read.job_type = p_job_type)
                and (p_queue is null or read.queue = p_queue)
                and (p_worker_id is null or read.worker_id = p_worker_id)
                and (p_key is null or read.key = p_key)
                and (not v_finished or p_since is null or read.finished_at >= p_since)
                and (not v_finished or p_until is null or read.finished_at < p_until)
            ) is true as fits,
            v_search is null
                or coalesce(strpos(lower(read.last_error), v_search) > 0, false)
                or v_digits is not null and treadle.has_digits(read.id, v_digits) as in_text,
            row_number() over () as nth
        from (
            select
                job.id, job.status, job.holds, job.run_at, job.job_type, job.queue, job.worker_id, job.key,
                job.priority, job.claimed_at, job.finished_at, job.last_error
            from treadle.jobs as job
            where jsonb_hash_extended(job.data #> p_path, 0) = jsonb_hash_extended(p_value, 0)
              and job.data #> p_path is not null
              and (p_id is null or job.id < p_id)
              and (v_first is null or job.id >= v_first)
              and (v_last is null or job.id < v_last)
            order by job.id desc
            limit p_look
        ) as read;
    elsif p_status in ('pending', 'later') and p_key is null then
        return query
        select *
        from treadle.find_claimable(
            p_job_type, p_queue, p_worker_id, v_search, v_payloads,
            case p_status when 'later' then now() else '-infinity' end, p_rank, p_at, p_id, p_limit, p_look, v_end,
            v_digits, v_first, v_last, p_path, p_value, p_also
        );
        return;
    else
        open v_walk no scroll for
        select walk.*
        from (
            select
                read.id,
                read.rank,
                read.at,
                (
                    treadle.has_status(p_status, read.status, read.holds, read.run_at)
                    and (p_job_type is null or read.job_type = p_job_type)
                    and (p_queue is null or read.queue = p_queue)
                    and (p_worker_id is null or read.worker_id = p_worker_id)
                    and (p_key is null or read.key = p_key)
                    and (v_first is null or read.id >= v_first)
                    and (v_last is null or read.id < v_last)
                ) is true as fits,
                v_search is null
                    or coalesce(strpos(lower(read.last_error), v_search) > 0, false)
                    or v_digits is not null and treadle.has_digits(read.id, v_digits) as in_text,
                row_number() over () as nth
            from (
                -- Only the branch of p_status is planned.
                (
                    select
                        job.id, null::int as rank, job.finished_at as at, job.status, job.holds, job.run_at,
                        job.job_type, job.queue, job.worker_id, job.key, job.last_error
                    from treadle.jobs as job
                    where p_status in ('completed', 'failed', 'cancelled')
                      and job.status = p_status
                      and (p_since is null or job.finished_at >= p_since)
                      and (p_until is null or job.finished_at < p_until)
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
                        job.id, null, coalesce(job.claimed_at, '-infinity') as at, job.status, job.holds,
                        job.run_at, job.job_type, job.queue, job.worker_id, job.key, job.last_error
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
                            between case when p_status in ('claimed', 'running') then 0 else 1 end
                            and case p_status when 'claimed' then 0 when 'running' then 0 when 'blocked' then 2 else 1 end
                      and (p_id is null or (treadle.key_rank(job.status, job.holds), job.id) > (p_rank, p_id))
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
                      and (v_first is null or job.id >= v_first)
                      and (v_last is null or job.id < v_last)
                    order by job.id desc
                    limit p_look
                )
            ) as read
        ) as walk
        where walk.fits and (walk.in_text or v_payloads)
           or walk.nth = p_look
           or walk.nth % c_stride = 0;
    end if;

    -- From here on only payloads are searched: that statement need not be planned each time.
    perform set_config('plan_cache_mode', 'force_generic_plan', true);
    loop
        v_size := 0;
        while v_size < v_batch loop
            fetch v_walk into v_job;
            exit when not found;
            v_size := v_size + 1;
            v_ids[v_size] := v_job.id;
            v_ranks[v_size] := v_job.rank;
            v_times[v_size] := v_job.at;
            v_fit[v_size] := v_job.fits;
            v_in_text[v_size] := v_job.in_text;
            v_numbers[v_size] := v_job.nth;
        end loop;
        exit when v_size = 0;

        v_start := clock_timestamp();
        -- Without the privilege, the statement would fail even if it read no payload.
        if v_payloads and (v_search is not null or p_path is not null) then
            select array_agg(candidate.nth)
            into v_matching
            from generate_series(1, v_size) as candidate (nth)
            cross join lateral (
                select
                from treadle.jobs as job
                where job.id = v_ids[candidate.nth]
                  and (p_path is null or job.data #> p_path = coalesce(p_value, job.data #> p_path))
                  and (p_also is null or treadle.has_values(job.data, p_also))
                  and (v_in_text[candidate.nth] or strpos(lower(job.data::text), v_search) > 0)
                offset 0
            ) as payload
            where v_fit[candidate.nth]
              and (p_path is not null or not v_in_text[candidate.nth]);
            -- Large payloads take long: then the clock is checked after each.
            v_batch := case
                when clock_timestamp() > v_start + interval '4 milliseconds' then 1
                when clock_timestamp() < v_start + interval '1 millisecond' then least(2 * v_batch, c_batch)
                else v_batch
            end;
        end if;

        -- If none matches, only the last one may be returned, as the place where the search stopped.
        v_from := case
            when v_matching is not null then 1
            when p_path is not null or v_search is not null and not true = any (v_in_text) then v_size
            else 1
        end;
        for v_nth in v_from .. v_size loop
            id := v_ids[v_nth];
            rank := v_ranks[v_nth];
            at := v_times[v_nth];
            examined := v_numbers[v_nth];
            fits := v_fit[v_nth]
                and (p_path is null and v_in_text[v_nth] or coalesce(v_nth = any (v_matching), false));
            -- A page whose jobs all match is not cut short: its limit bounds the cost, unless the limit is that of a
            -- count.
            last := examined = p_look
                or v_nth = v_size
                and (v_search is not null or p_path is not null or not fits or p_limit >= p_look)
                and coalesce(clock_timestamp() > v_end, false);
            if fits or last then
                return next;
            end if;
            if fits then
                v_found := v_found + 1;
            end if;
            if last or v_found > p_limit then
                return;
            end if;
        end loop;
    end loop;
end
$$;
