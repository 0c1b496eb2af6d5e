-- Jobs that are there already need what is stored: what a handler stores, and what its result refers to. Returns what
-- is not there (any more), and is used by nobody for that reason.
--
-- Key share locks: while a use is not committed, the sweeper passes over the stored thing, and nobody prunes the job.
create or replace function treadle.use_stored(p_job_ids uuid[], p_stored_ids uuid[]) returns setof uuid
language plpgsql
set enable_seqscan = off
as $$
declare
    v_held uuid[];
    v_jobs uuid[];
begin
    v_held := array(
        select stored.id
        from treadle.stored as stored
        where stored.id = any (p_stored_ids)
          and stored.removing_at is null
        order by stored.id
        for key share
    );

    v_jobs := array(
        select job.id
        from treadle.jobs as job
        where job.id = any (p_job_ids)
        order by job.id
        for key share
    );

    insert into treadle.stored_uses (stored_id, job_id)
    select use.stored_id, use.job_id
    from unnest(p_stored_ids, p_job_ids) as use (stored_id, job_id)
    where use.stored_id = any (v_held)
      and use.job_id = any (v_jobs)
    on conflict do nothing;

    return query
    select distinct wanted.id
    from unnest(p_stored_ids) as wanted (id)
    where wanted.id <> all (v_held);
end
$$;

comment on function treadle.use_stored(uuid[], uuid[])
    is 'Each of these jobs needs the stored thing beside it, until it is deleted; returns those that are not there any more.';
