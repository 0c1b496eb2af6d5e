-- Retries the jobs of a workflow that failed, or were cancelled by somebody (a workflow among them itself, if it has
-- none yet); those that were stopped because of them follow by themselves. Returns how many.
create or replace function treadle.retry_workflow(p_id uuid) returns int
language plpgsql
as $$
declare
    v_retried int;
begin
    select count(*) filter (where retried.done)
    into v_retried
    from (
        select
            case
                when job.flags & treadle.flag_workflow() <> 0 then treadle.retry_workflow(job.id) > 0 or treadle.retry_job(job.id)
                else treadle.retry_job(job.id)
            end as done
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
          and job.status in ('failed', 'cancelled')
          and not exists (
                select
                from treadle.dependencies as cause
                where cause.job_id = job.id
                  and cause.needs <> 'member'
                  and cause.stopped
          )
        order by job.id
        offset 0
    ) as retried;

    -- It was cancelled as a whole: what is left of it goes on.
    if v_retried > 0 then
        perform treadle.retry_job(job.id)
        from treadle.jobs as job
        where job.id = p_id
          and job.status = 'cancelled';
    end if;
    return v_retried;
end
$$;
