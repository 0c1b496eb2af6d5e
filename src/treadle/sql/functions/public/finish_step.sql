-- Records that a step of a job is finished, with its result. Returns false if the claim is lost. Calling it twice,
-- as after a lost reply, records it once.
create or replace function treadle.finish_step(
    p_id uuid,
    p_position int,
    p_name varchar,
    p_result jsonb,
    p_lease bigint,
    p_worker_id varchar
) returns boolean
language plpgsql
as $$
begin
    update treadle.jobs as job
    set flags = job.flags | treadle.flag_steps(),
        seen_at = clock_timestamp()
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and job.lease = p_lease
      and job.worker_id = p_worker_id;
    if not found then
        return false;
    end if;

    insert into treadle.steps (job_id, position, name, result, lease)
    values (p_id, p_position, p_name, p_result, p_lease)
    on conflict do nothing;
    return true;
end
$$;
