-- How a job ended, as a reason for another one. If it was itself stopped because of another one, how that one ended.
create or replace function treadle.describe_end(p_id uuid, p_relation text default '') returns text
language plpgsql stable
as $$
begin
    return coalesce(
        (
            select
                case
                    when exists (
                        select
                        from treadle.dependencies as edge
                        where edge.job_id = job.id
                          and edge.stopped
                    ) then job.last_error
                    else format('job %s (%s)%s ', job.id, job.job_type, p_relation)
                        || case job.status when 'failed' then 'failed' when 'completed' then 'completed' else 'was cancelled' end
                        || case
                            when job.status = 'completed' then ''
                            else coalesce(': ' || left(split_part(job.last_error, E'\n', 1), 300), '')
                        end
                end
            from treadle.jobs as job
            where job.id = p_id
        ),
        format('job %s%s was deleted', p_id, p_relation)
    );
end
$$;
