-- Decides what the end or the retry of a job means for those that wait for it: for p_limit of them, those after
-- p_past. Returns the last of these; null if that is all. Rows that somebody else has locked are noted for later.
create or replace function treadle.check_ended(p_id uuid, p_past uuid, p_limit int) returns uuid
language plpgsql
set treadle.plan = nested_loops
set jit = off
as $$
declare
    v_outcome varchar; -- null: it was deleted
    v_ids uuid[];
    v_ok boolean[];
    v_member boolean[];
    v_locked uuid[];
begin
    select treadle.outcome_of(job.status, job.flags)
    into v_outcome
    from treadle.jobs as job
    where job.id = p_id;

    if v_outcome in ('pending', 'claimed', 'running') then
        -- It was retried: so are the jobs that were stopped because of it.
        select array_agg(stopped.id order by stopped.id)
        into v_ids
        from (
            select edge.job_id as id
            from treadle.dependencies as edge
            where edge.after_id = p_id
              and edge.job_id > coalesce(p_past, '00000000-0000-0000-0000-000000000000')
              and edge.stopped
            order by edge.job_id
            limit p_limit
        ) as stopped;
        v_locked := array(
            select job.id
            from treadle.jobs as job
            where job.id = any (v_ids)
            order by job.id
            for no key update skip locked
        );
        update treadle.dependencies as edge
        set stopped = false
        where edge.after_id = p_id
          and edge.job_id = any (v_locked);
        perform treadle.retry_job(job.id)
        from treadle.jobs as job
        where job.id = any (v_locked)
          and (job.status = 'cancelled' or job.status = 'failed' and job.flags & treadle.flag_workflow() <> 0)
          and job.holds & treadle.blocked_by_jobs() <> 0;
        if cardinality(v_locked) < cardinality(v_ids) then
            perform treadle.note_dependency_check(array[p_id], true, p_later => true);
        end if;
    else
        if coalesce(v_outcome not in ('completed', 'skipped'), true) then
            update treadle.dependencies as edge
            set stopped = true
            where edge.after_id = p_id
              and edge.needs = 'member'
              and not edge.stopped;
        end if;

        -- Those that watch it; and if it has not ended as they need it, all.
        select
            array_agg(waiting.id order by waiting.id), array_agg(waiting.ok order by waiting.id),
            array_agg(waiting.is_member order by waiting.id)
        into v_ids, v_ok, v_member
        from (
            select
                edge.job_id as id, treadle.is_satisfied(edge.needs, v_outcome) as ok, edge.needs = 'member' as is_member
            from treadle.dependencies as edge
            join treadle.jobs as job on job.id = edge.job_id
            where edge.after_id = p_id
              and edge.job_id > coalesce(p_past, '00000000-0000-0000-0000-000000000000')
              and (edge.watched or not edge.stopped and not treadle.is_satisfied(edge.needs, v_outcome))
              and treadle.is_waiting(job.status, job.holds)
            order by edge.after_id, edge.job_id
            limit p_limit
        ) as waiting;
        if v_ids is null then
            return null;
        end if;

        v_locked := array(
            select job.id
            from treadle.jobs as job
            where job.id = any (v_ids)
              and treadle.is_waiting(job.status, job.holds)
            order by job.id
            for no key update skip locked
        );
        perform treadle.settle_workflows(array_agg(waiting.id))
        from unnest(v_ids, v_member) as waiting (id, is_member)
        where waiting.is_member
          and waiting.id = any (v_locked)
        having count(*) > 0;
        perform treadle.settle_waiting(array_agg(waiting.id), p_id)
        from unnest(v_ids, v_ok, v_member) as waiting (id, ok, is_member)
        where waiting.ok
          and not waiting.is_member
          and waiting.id = any (v_locked)
        having count(*) > 0;
        perform treadle.stop_waiting(array_agg(waiting.id), array_agg(p_id))
        from unnest(v_ids, v_ok) as waiting (id, ok)
        where not waiting.ok
          and waiting.id = any (v_locked)
        having count(*) > 0;

        if cardinality(v_locked) < cardinality(v_ids) then
            perform treadle.note_dependency_check(array_agg(waiting.id), false, p_later => true)
            from unnest(v_ids) as waiting (id)
            where waiting.id <> all (v_locked)
            having count(*) > 0;
        end if;
    end if;

    return case when cardinality(v_ids) = p_limit then v_ids[p_limit] end;
end
$$;
