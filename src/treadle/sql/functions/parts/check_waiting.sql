-- Decides what these jobs wait for. Returns those whose rows somebody else has locked: whoever did that may let them run, or cancel
-- them.
create or replace function treadle.check_waiting(p_ids uuid[], p_past uuid) returns uuid[]
language plpgsql
set enable_seqscan = off
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
begin
    if v_locked <> '{}' then
        perform treadle.settle_waiting(v_locked, p_past);
    end if;
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

comment on function treadle.check_waiting(uuid[], uuid) is 'Decides what these jobs wait for. Returns those that are locked.';
