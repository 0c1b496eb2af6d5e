-- Decides about jobs that wait for others and whose rows the caller has locked. p_past has ended, and was watched by each of them;
-- null: look at all that they wait for.
--
-- Of all jobs that a job waits for, one that has not ended is watched: its row is locked, and marked, so that whoever ends it comes
-- here again. They are watched in the order of their ids, so the ends of a thousand cost no more than those of a thousand chains.
-- If there is none left, all are looked at once more, because a row that was locked had to be passed over.
create or replace function treadle.settle_waiting(p_ids uuid[], p_past uuid default null) returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_watching uuid[];
    v_next uuid[];
    v_free uuid[];
    v_stopped uuid[];
    v_causes uuid[];
    v_later uuid[];
begin
    select array_agg(waiting.id), array_agg(next.id)
    into v_watching, v_next
    from unnest(p_ids) as waiting (id)
    cross join lateral (
        select job.id
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = waiting.id
          and edge.after_id > coalesce(p_past, '00000000-0000-0000-0000-000000000000')
          and job.finished_at is null
        order by edge.after_id
        limit 1
        for no key update of job skip locked
    ) as next;

    update treadle.dependencies as edge
    set watched = false
    where edge.job_id = any (p_ids)
      and edge.after_id = p_past
      and edge.watched;

    if v_next is not null then
        update treadle.jobs as job
        set keeps = job.keeps | treadle.keeps_watchers()
        where job.id = any (v_next)
          and job.keeps & treadle.keeps_watchers() = 0;

        update treadle.dependencies as edge
        set watched = true
        from unnest(v_watching, v_next) as chosen (job_id, after_id)
        where edge.job_id = chosen.job_id
          and edge.after_id = chosen.after_id;

        if cardinality(v_next) = cardinality(p_ids) then
            return;
        end if;
    end if;

    select
        array_agg(waiting.id) filter (where state.cause is null and not state.is_open),
        array_agg(waiting.id) filter (where state.cause is not null),
        array_agg(state.cause) filter (where state.cause is not null),
        array_agg(waiting.id) filter (where state.cause is null and state.is_open)
    into v_free, v_stopped, v_causes, v_later
    from unnest(p_ids) as waiting (id)
    cross join lateral (
        select
            (array_agg(edge.after_id order by edge.after_id) filter (
                where not edge.ok_to_fail
                  and (job.id is null or job.status in ('failed', 'cancelled'))
            ))[1] as cause,
            coalesce(bool_or(job.finished_at is null) filter (where job.id is not null), false) as is_open
        from treadle.dependencies as edge
        left join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = waiting.id
    ) as state
    where waiting.id = any (v_watching) is not true;

    if v_free is not null then
        perform treadle.free_waiting(v_free);
    end if;
    if v_stopped is not null then
        perform treadle.stop_waiting(v_stopped, v_causes);
    end if;
    if v_later is not null then
        perform treadle.note_dependency_check(v_later, false, true);
    end if;
end
$$;

comment on function treadle.settle_waiting(uuid[], uuid)
    is 'Frees or stops jobs that wait for others, or watches the next that they wait for.';
