-- Decides what these jobs wait for. Returns those whose rows somebody else has locked: whoever did that may let them
-- run, or cancel them.
create or replace function treadle.check_waiting(p_ids uuid[], p_past uuid) returns uuid[]
language plpgsql
as $$
declare
    -- Locked in the order of ids, as in every statement that locks several jobs.
    v_locked constant uuid[] := array(
        select job.id
        from treadle.jobs as job
        where job.id = any (p_ids)
          and treadle.is_waiting(job.status, job.holds)
        order by job.id
        for no key update skip locked
    );
    -- Workflows that have begun wait for their own jobs only.
    v_begun constant uuid[] := array(
        select workflow.id
        from treadle.workflows as workflow
        where workflow.id = any (v_locked)
          and workflow.plan is null
    );
begin
    if v_begun <> '{}' then
        perform treadle.settle_workflows(v_begun, p_past);
    end if;
    perform treadle.settle_waiting(array_agg(waiting.id), p_past)
    from unnest(v_locked) as waiting (id)
    where waiting.id <> all (v_begun)
    having count(*) > 0;
    if cardinality(v_locked) = cardinality(p_ids) then
        return '{}';
    end if;
    return array(
        select job.id
        from treadle.jobs as job
        where job.id = any (p_ids)
          and job.id <> all (v_locked)
          and treadle.is_waiting(job.status, job.holds)
    );
end
$$;
