-- Gives pending jobs the partition that their limits need, if they were inserted by hand, or before there was a
-- limit. Returns how many were changed.
create or replace function treadle.set_partitions(p_ids uuid[]) returns int
language plpgsql
as $$
declare
    v_changed int;
begin
    update treadle.jobs as job
    set partition = placed.partition
    from (
        select waiting.id, treadle.partition_of(parts.parts, waiting.data) as partition
        from treadle.jobs as waiting
        cross join lateral treadle.partition_parts(waiting.job_type, waiting.queue) as parts (parts)
        where waiting.id = any (p_ids)
          and waiting.status = 'pending'
          and parts.parts is not null
    ) as placed
    where job.id = placed.id
      and job.status = 'pending'
      and job.partition <> placed.partition;

    get diagnostics v_changed = row_count;
    return v_changed;
end
$$;
