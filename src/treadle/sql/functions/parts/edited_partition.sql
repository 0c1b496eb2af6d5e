-- The partition of a job when its arguments have these values. A partition that was given when it was enqueued stays.
create or replace function treadle.edited_partition(p_job treadle.jobs, p_arguments jsonb) returns varchar
language plpgsql stable
as $$
declare
    v_parts constant varchar[] := treadle.partition_parts(p_job.job_type, p_job.queue);
begin
    return case
        when v_parts is not null and p_job.partition in ('', treadle.partition_of(v_parts, p_job.data))
        then treadle.partition_of(v_parts, p_job.data || p_arguments)
        else p_job.partition
    end;
end
$$;
