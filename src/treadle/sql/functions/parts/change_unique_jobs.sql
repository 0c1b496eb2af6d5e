-- Changes pending jobs as on_conflict says, for enqueue_unless_exists(), which has locked them. p_nths and p_unique
-- say which element of p_data belongs to which unique key.
create or replace function treadle.change_unique_jobs(
    p_job treadle.jobs,
    p_data text[],
    p_partitions varchar[],
    p_options treadle.enqueue_options,
    p_nths int[],
    p_unique varchar[],
    p_ids uuid[]
) returns void
language plpgsql
as $$
declare
    v_replace constant boolean := 'replace' = any (p_options.on_conflict);
    v_reschedule constant boolean := 'reschedule' = any (p_options.on_conflict);
    v_prioritize constant boolean := 'prioritize' = any (p_options.on_conflict);
begin
    update treadle.jobs as job
    set data = case when v_replace then item.data::jsonb else job.data end,
        headers = case when v_replace then p_job.headers else job.headers end,
        timeout = case when v_replace then p_job.timeout else job.timeout end,
        checkpoint = case when not v_replace then job.checkpoint end,
        partition = case when v_replace then coalesce(item.partition, job.partition) else job.partition end,
        priority = case when v_prioritize then greatest(job.priority, p_job.priority) else job.priority end,
        run_at = case when v_reschedule then moved.run_at else job.run_at end,
        -- Counted from when the job is due.
        expires_at = coalesce(
            p_job.expires_at,
            case when v_reschedule then job.expires_at + (moved.run_at - job.run_at) end,
            job.expires_at
        )
    from treadle.jobs as before
    cross join lateral (
        select greatest(least(p_job.run_at, before.created_at + p_options.latest), p_job.created_at) as run_at
    ) as moved
    join unnest(p_unique, p_nths) as chosen (unique_key, nth) on chosen.unique_key = before.unique_key
    join unnest(p_data, p_partitions) with ordinality as item (data, partition, nth) on item.nth = chosen.nth
    where before.id = any (p_ids)
      and job.id = before.id;

    -- Earlier attempts, if there were any, worked on the other payload.
    delete from treadle.steps as step
    where v_replace
      and step.job_id = any (p_ids);

    insert into treadle.expiries (look_at, job_id)
    select job.expires_at, job.id
    from treadle.jobs as job
    where job.id = any (p_ids)
      and job.expires_at is not null
    on conflict do nothing;
end
$$;
