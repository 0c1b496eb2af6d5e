-- What the end, or the retry, of a job means for those that wait for it; up to p_limit of them. Returns whether that is all. Rows that
-- somebody else has locked are left for later.
create or replace function treadle.check_ended(p_id uuid, p_limit int) returns boolean
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    v_status varchar;
    v_ids uuid[];
    v_ok boolean[];
begin
    select job.status
    into v_status
    from treadle.jobs as job
    where job.id = p_id;

    if v_status in ('pending', 'claimed', 'running') then
        -- It was retried: so are the jobs that were stopped because of it.
        v_ids := array(
            select edge.job_id
            from treadle.dependencies as edge
            where edge.after_id = p_id
              and edge.stopped
            order by edge.job_id
            limit p_limit
        );
        update treadle.dependencies as edge
        set stopped = false
        where edge.after_id = p_id
          and edge.job_id = any (v_ids);
        perform treadle.retry_job(job.id)
        from treadle.jobs as job
        where job.id = any (v_ids)
          and job.status = 'cancelled'
          and job.holds & treadle.blocked_by_jobs() <> 0;
        return cardinality(v_ids) < p_limit;
    end if;

    -- Also those that do not watch it, if it has not ended as they need it.
    select array_agg(waiting.id), array_agg(waiting.ok)
    into v_ids, v_ok
    from (
        select job.id, treadle.is_satisfied(edge.needs, v_status) as ok
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.job_id
        where edge.after_id = p_id
          and (edge.watched or not edge.stopped and not treadle.is_satisfied(edge.needs, v_status))
          and treadle.is_waiting(job.status, job.holds)
        order by edge.after_id, edge.job_id
        limit p_limit
        for no key update of job skip locked
    ) as waiting;

    if v_ids is not null then
        perform treadle.settle_waiting(array_agg(waiting.id), p_id)
        from unnest(v_ids, v_ok) as waiting (id, ok)
        where waiting.ok
        having count(*) > 0;
        perform treadle.stop_waiting(array_agg(waiting.id), array_agg(p_id))
        from unnest(v_ids, v_ok) as waiting (id, ok)
        where not waiting.ok
        having count(*) > 0;
    end if;

    return not exists (
        select
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.job_id
        where edge.after_id = p_id
          and (edge.watched or not edge.stopped and not treadle.is_satisfied(edge.needs, v_status))
          and treadle.is_waiting(job.status, job.holds)
    );
end
$$;

comment on function treadle.check_ended(uuid, int)
    is 'Decides what the end or the retry of a job means for those that wait for it. Returns false if there is more to do.';
