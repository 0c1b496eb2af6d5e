-- Deletes up to p_limit jobs that finished with p_status more than p_age ago, oldest first. Also returns the time that it
-- reached: pass it as p_after of the next call, so that that call skips the dead index entries of this one.
create or replace function treadle.prune_jobs(
    p_status varchar,
    p_age interval,
    p_limit int default 1000,
    p_after timestamptz default '-infinity',
    out pruned int,
    out reached timestamptz
)
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set enable_tidscan = on
set jit = off
as $$
declare
    v_before constant timestamptz := treadle.clock_before(p_age, clock_timestamp());
    v_places tid[];
    v_workflows uuid[];
    v_parts int := 0;
begin
    select array_agg(old.place), max(old.finished_at)
    into v_places, reached
    from (
        select job.ctid as place, job.finished_at
        from treadle.jobs as job
        where job.status in ('completed', 'failed', 'cancelled')
          and job.status = p_status
          and job.finished_at >= p_after
          and job.finished_at < v_before
          and job.flags & treadle.flag_member() = 0 -- deleted with the workflow
        order by job.finished_at
        limit p_limit
        for update skip locked
    ) as old;

    -- Not those that others still wait for. Ids are ordered by time: one search shows whether there can be any.
    if exists (
        select
        from treadle.dependencies as edge
        where edge.after_id >= (select job.id from treadle.jobs as job where job.ctid = any (v_places) order by job.id limit 1)
          and edge.after_id <= (select job.id from treadle.jobs as job where job.ctid = any (v_places) order by job.id desc limit 1)
    ) then
        v_places := array(
            select job.ctid
            from treadle.jobs as job
            where job.ctid = any (v_places)
              and not exists (
                    select
                    from treadle.dependencies as edge
                    join treadle.jobs as waiting on waiting.id = edge.job_id
                    where edge.after_id = job.id
                      and waiting.finished_at is null
              )
        );
    end if;

    -- Workflows: first their jobs, and theirs.
    v_workflows := array(
        select job.id
        from treadle.jobs as job
        where job.ctid = any (v_places)
          and job.flags & treadle.flag_workflow() <> 0
    );
    if v_workflows <> '{}' then
        v_parts := treadle.delete_members(v_workflows, p_limit);
        v_places := array(
            select job.ctid
            from treadle.jobs as job
            where job.ctid = any (v_places)
              and (job.flags & treadle.flag_workflow() = 0 or not treadle.has_members(job.id))
        );
    end if;

    delete from treadle.jobs as job
    where job.ctid = any (v_places);

    get diagnostics pruned = row_count;
    pruned := pruned + v_parts;
end
$$;

comment on function treadle.prune_jobs(varchar, interval, int, timestamptz)
    is 'Deletes up to p_limit jobs that finished with p_status more than p_age ago. Returns how many, and the time that it reached.';
