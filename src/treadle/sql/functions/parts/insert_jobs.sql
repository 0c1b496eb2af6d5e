-- The INSERT of enqueue_with_options() for jobs without a unique key of their own. p_job has what they have in common; p_nths
-- says which elements of p_data are meant, in order. Returns their ids in the same order.
create or replace function treadle.insert_jobs(p_job treadle.jobs, p_data text[], p_keys varchar[], p_nths int[])
returns setof uuid
language plpgsql
as $$
begin
    return query
    with added as (
        insert into treadle.jobs as job (
            job_type, priority, data, created_at, queue, run_at, key, max_attempts, expires_at
        )
        select
            p_job.job_type,
            p_job.priority,
            item.data::jsonb,
            p_job.created_at,
            p_job.queue,
            -- As in enqueue_jobs(): the floor of the lane can lie between any two of them.
            p_job.run_at - (cardinality(p_data) - item.nth) * interval '1 microsecond',
            item.key,
            p_job.max_attempts,
            p_job.expires_at
        from unnest(p_nths) as wanted (nth)
        join unnest(p_data, p_keys) with ordinality as item (data, key, nth) on item.nth = wanted.nth
        order by item.nth
        returning job.id
    ),
    looked as (
        insert into treadle.expiries (look_at, job_id)
        select p_job.expires_at, added.id
        from added
        where p_job.expires_at is not null
    )
    select added.id
    from added;
end
$$;

comment on function treadle.insert_jobs(treadle.jobs, text[], varchar[], int[])
    is 'Inserts jobs for enqueue_with_options() and returns their ids in order.';
