-- Ends the attempt of a claimed job whose handler hands its result over to other jobs, and enqueues those. From then on
-- the job is a workflow of these jobs (p_blocks as in enqueue_workflow()): it ends when they have ended,
-- with their result. Fenced by its lease number and worker; all or nothing. p_stored are stored objects, each used by
-- the job with the number in p_nths.
--
-- Returns false if the claim is lost, and why the other jobs cannot be enqueued, if they cannot.
create or replace function treadle.replace_job(
    p_worker_id varchar,
    p_id uuid,
    p_lease bigint,
    p_seconds double precision,
    p_blocks jsonb,
    p_nths int[] default '{}',
    p_stored uuid[] default '{}',
    out accepted boolean,
    out problem text
)
language plpgsql
as $$
declare
    v_ids uuid[];
begin
    -- Stored values are locked before jobs.
    perform from treadle.stored where id = any (p_stored) order by id for key share;
    accepted := treadle.lock_claimed(p_worker_id, array[p_id], array[p_lease]) <> '{}';
    if not accepted then
        return;
    end if;
    select format('the job keeps its key %s until they have ended, so they must have another one', job.key)
    into problem
    from treadle.jobs as job
    cross join jsonb_array_elements(p_blocks) as block (value)
    where job.id = p_id
      and job.key = block.value ->> 'key'
    limit 1;
    if found then
        return;
    end if;

    begin
        -- What it waited for no longer matters, and its arguments are not results of this workflow.
        update treadle.dependencies as edge
        set needs = 'ended',
            arguments = null,
            nth = null,
            watched = false,
            stopped = false
        where edge.job_id = p_id;

        -- It stays held: if one of those jobs is retried, it waits again. It needs no more attempts, but a job without
        -- any that is pending is one that something has gone wrong with.
        update treadle.jobs as job
        set status = 'pending',
            holds = job.holds | treadle.blocked_by_jobs(),
            flags = job.flags | treadle.flag_dependencies() | treadle.flag_workflow() | treadle.flag_inputs(),
            max_attempts = greatest(job.max_attempts, job.attempts + 1),
            started_at = coalesce(job.started_at, clock_timestamp() - p_seconds * interval '1 second'),
            worker_id = null,
            claimed_at = null,
            losses = null,
            progress = 0,
            current_stage = null,
            pace = null
        where job.id = p_id;

        select array_agg(added.id order by added.nth), max(case when added.nth is null then coalesce(
            'job ' || added.id || ', which one of them waits for, does not exist',
            'max_pending is reached'
        ) end)
        into v_ids, problem
        from treadle.enqueue_workflow('', p_blocks, jsonb_build_object('job', p_id)) as added;
        if problem is null then
            select format('stored object %s does not exist', missing.id)
            into problem
            from treadle.use_stored(
                array(select v_ids[use.nth + 1] from unnest(p_nths) with ordinality as use (nth, place) order by use.place),
                p_stored
            ) as missing (id)
            limit 1;
        end if;
        if problem is not null then
            raise exception using errcode = 'TRD05'; -- undone here
        end if;
    exception when sqlstate 'TRD05' then
        return;
    end;
    perform treadle.announce(array[p_id], 'news');
end
$$;
