create or replace function treadle.cancel_members(p_id uuid, p_reason text) returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    perform treadle.cancel_job(job.id, p_reason)
    from (
        select job.id
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
          and job.finished_at is null
        order by job.id
        offset 0
    ) as job;
end
$$;

comment on function treadle.cancel_members(uuid, text) is 'Cancels the jobs of a workflow that have not ended.';
