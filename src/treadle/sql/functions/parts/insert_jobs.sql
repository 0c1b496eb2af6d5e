-- The INSERT of enqueue_with_options(). p_job has what the jobs have in common; p_nths says which elements of p_data are meant,
-- and p_unique has a unique key for each of them, if they have one. Without unique keys, returns the ids in the order of the list.
-- Jobs whose unique key another job has are left out; if that one is just being added, this waits for its transaction.
--
-- In the order of the unique keys, so that two calls at the same time cannot wait for each other; jobs with a key in the order of
-- the list, because the order within a key is that of the ids.
create or replace function treadle.insert_jobs(
    p_job treadle.jobs,
    p_data text[],
    p_keys varchar[],
    p_nths int[],
    p_unique varchar[] default null,
    p_partitions text[] default null -- what is given of the partition of each element of p_data, as JSON
) returns table (id uuid, unique_key varchar)
language plpgsql
as $$
#variable_conflict use_column -- in "on conflict"
declare
    v_parts constant varchar[] := treadle.partition_parts(p_job.job_type, p_job.queue);
begin
    return query
    with added as (
        insert into treadle.jobs as job (
            job_type, priority, data, created_at, queue, run_at, key, max_attempts, unique_key, unique_while, expires_at,
            partition, weight, holds, flags, headers
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
            wanted.unique_key,
            p_job.unique_while,
            p_job.expires_at,
            case
                when v_parts is null and item.given is null then ''
                else treadle.partition_of(v_parts, item.data::jsonb, item.given::jsonb)
            end,
            p_job.weight,
            coalesce(p_job.holds, 0),
            coalesce(p_job.flags, 0),
            p_job.headers
        from unnest(p_nths, p_unique) as wanted (nth, unique_key)
        join unnest(p_data, p_keys, p_partitions) with ordinality as item (data, key, given, nth) on item.nth = wanted.nth
        order by
            case when wanted.unique_key is not null then item.key end,
            case when item.key is null then wanted.unique_key end,
            item.nth
        on conflict (unique_key, job_type)
            where unique_key is not null and status in ('pending', 'claimed', 'running')
            do nothing
        returning job.id, job.unique_key
    ),
    looked as (
        insert into treadle.expiries (look_at, job_id)
        select p_job.expires_at, added.id
        from added
        where p_job.expires_at is not null
    )
    select added.id, added.unique_key
    from added;
end
$$;

comment on function treadle.insert_jobs(treadle.jobs, text[], varchar[], int[], varchar[], text[])
    is 'Inserts jobs for enqueue_with_options(), except those whose unique key another job has.';
