-- Records that existing jobs use stored objects. Returns the objects that do not exist; no use is recorded for them.
-- Key share locks: until a use is committed, sweep_stored() skips the object, and the job cannot be pruned.
create or replace function treadle.use_stored(p_job_ids uuid[], p_stored_ids uuid[]) returns setof uuid
language plpgsql
as $$
declare
    v_existing uuid[];
    v_jobs uuid[];
begin
    v_existing := array(
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
    where use.stored_id = any (v_existing)
      and use.job_id = any (v_jobs)
    on conflict do nothing;

    return query
    select distinct wanted.id
    from unnest(p_stored_ids) as wanted (id)
    where wanted.id <> all (v_existing);
end
$$;
