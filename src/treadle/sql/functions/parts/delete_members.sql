-- A part of prune_jobs(): deletes up to p_limit jobs of workflows that have ended, except those that have not, or
-- that others wait for. Returns how many.
create or replace function treadle.delete_members(p_ids uuid[], p_limit int) returns int
language plpgsql
set treadle.plan = nested_loops
set jit = off
as $$
declare
    v_deleted int;
begin
    with recursive part as (
        select edge.job_id as workflow_id, edge.after_id as id
        from treadle.dependencies as edge
        where edge.job_id = any (p_ids)
          and edge.needs = 'member'
        union all
        select edge.job_id, edge.after_id
        from part
        join treadle.dependencies as edge on edge.job_id = part.id and edge.needs = 'member'
    ),
    chosen as materialized (
        select job.id
        from part
        join treadle.jobs as job on job.id = part.id
        where job.finished_at is not null
          and not exists (
                select
                from treadle.dependencies as edge
                join treadle.jobs as waiting on waiting.id = edge.job_id
                where edge.after_id = job.id
                  and waiting.finished_at is null
          )
        limit p_limit
        for update of job skip locked
    ),
    dropped as (
        delete from treadle.dependencies as edge
        using chosen
        where edge.after_id = chosen.id
          and edge.needs = 'member'
    )
    delete from treadle.jobs as job
    using chosen
    where job.id = chosen.id;

    get diagnostics v_deleted = row_count;
    return v_deleted;
end
$$;
