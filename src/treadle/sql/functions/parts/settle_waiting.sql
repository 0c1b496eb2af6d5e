-- Frees or stops jobs that wait for others and whose rows the caller has locked, or watches the next that they wait
-- for. Those that they wait for have ended up to p_past, in the order of ids; null: this is not known.
--
-- Of all jobs that a job waits for, the first that has not ended is watched: its row is locked, and marked, so that
-- whoever ends it comes here again, and goes on from there. So each of them is looked at once, in whatever order they
-- end. If its row is locked by somebody else, who may just end it, it is looked at later.
create or replace function treadle.settle_waiting(p_ids uuid[], p_past uuid default null) returns void
language plpgsql
set treadle.plan = nested_loops
set jit = off
as $$
declare
    v_waiting uuid[]; -- those for which there is a
    v_next uuid[]; -- next job
    v_ended boolean[]; -- which has ended, but not as it has to
    v_locked uuid[];
    v_again uuid[];
    v_taking uuid[];
    v_workflows uuid[];
    v_signals uuid[];
    v_free uuid[];
begin
    select array_agg(waiting.id), array_agg(next.id), array_agg(next.ended)
    into v_waiting, v_next, v_ended
    from unnest(p_ids) as waiting (id)
    cross join lateral (
        select edge.after_id as id, job.id is null or job.finished_at is not null as ended
        from treadle.dependencies as edge
        left join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = waiting.id
          and edge.needs <> 'member'
          and edge.after_id > coalesce(p_past, '00000000-0000-0000-0000-000000000000')
          and (
                job.id is not null and job.finished_at is null
                or not treadle.is_satisfied(edge.needs, treadle.outcome_of(job.status, job.flags))
          )
        order by edge.after_id
        limit 1
    ) as next;

    -- The others need not wait any longer; except that a job whose result is needed may have been retried since.
    select
        array_agg(job.id order by job.id) filter (where sort.again),
        array_agg(job.id order by job.id) filter (where not sort.again and sort.takes_results),
        array_agg(job.id order by job.id) filter (where not sort.again and sort.workflow),
        array_agg(job.id order by job.id) filter (where not sort.again and sort.signal),
        array_agg(job.id order by job.id) filter (where not sort.again and not sort.workflow and not sort.signal)
    into v_again, v_taking, v_workflows, v_signals, v_free
    from treadle.jobs as job
    cross join lateral (
        select
            p_past is not null and job.flags & treadle.flag_inputs() <> 0 as again,
            job.flags & treadle.flag_inputs() <> 0 as takes_results,
            job.flags & treadle.flag_workflow() <> 0 as workflow,
            job.flags & treadle.flag_signal() <> 0 as signal
    ) as sort
    where job.id = any (p_ids)
      and job.id = any (v_waiting) is not true;
    if v_again is not null then
        perform treadle.settle_waiting(v_again);
    end if;
    if v_taking is not null then
        -- The stored objects that the results refer to.
        insert into treadle.stored_uses (stored_id, job_id)
        select distinct known.stored_id, edge.job_id
        from treadle.dependencies as edge
        join treadle.stored_uses as known on known.job_id = edge.after_id
        where edge.job_id = any (v_taking)
          and edge.arguments is not null
        on conflict do nothing;
    end if;
    if v_workflows is not null then
        perform treadle.settle_workflows(v_workflows);
    end if;
    if v_signals is not null then
        perform treadle.begin_signals(v_signals);
    end if;
    if v_free is not null then
        perform treadle.free_waiting(v_free);
    end if;

    perform treadle.stop_waiting(array_agg(chosen.id), array_agg(chosen.next))
    from unnest(v_waiting, v_next, v_ended) as chosen (id, next, ended)
    where chosen.ended
    having count(*) > 0;

    if not false = any (v_ended) then
        return;
    end if;

    v_locked := array(
        select job.id
        from treadle.jobs as job
        where job.id = any (v_next)
          and job.finished_at is null
        order by job.id
        for no key update skip locked
    );
    update treadle.jobs as job
    set flags = job.flags | treadle.flag_watched()
    where job.id = any (v_locked)
      and job.flags & treadle.flag_watched() = 0;
    update treadle.dependencies as edge
    set watched = true
    from unnest(v_waiting, v_next, v_ended) as chosen (id, next, ended)
    where not chosen.ended
      and chosen.next = any (v_locked)
      and edge.job_id = chosen.id
      and edge.after_id = chosen.next;

    perform treadle.note_dependency_check(array_agg(chosen.id), false, p_past, true)
    from unnest(v_waiting, v_next, v_ended) as chosen (id, next, ended)
    where not chosen.ended
      and chosen.next <> all (v_locked)
    having count(*) > 0;
end
$$;
