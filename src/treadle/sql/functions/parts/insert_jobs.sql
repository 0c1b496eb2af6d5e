-- Inserts jobs, all but those of enqueue(). p_job has what they have in common; p_nths says which elements of p_data
-- are meant, and p_unique has a unique key for each of them. Without unique keys, returns the ids in the order of the
-- list. Jobs whose unique key another job has are left out; if that one is just being added, this waits for its
-- transaction.
--
-- run_at grows by a microsecond from job to job, so that the floor of the lane can lie between any two of them. It is
-- counted backwards, so that all of them are due at once. In the order of the unique keys, so that two calls cannot
-- wait for each other; jobs with a key in the order of the list, because the order within a key is that of the ids.
create or replace function treadle.insert_jobs(
    p_job treadle.jobs,
    p_data text[],
    p_keys varchar[],
    p_partitions varchar[],
    p_nths int[] default null,
    p_unique varchar[] default null
) returns table (id uuid, unique_key varchar)
language plpgsql
as $$
#variable_conflict use_column -- in "on conflict"
declare
    v_first constant timestamptz := p_job.run_at - cardinality(p_data) * interval '1 microsecond';
begin
    -- "On conflict" writes more WAL, and not every role may insert the other columns.
    if p_nths is null and (p_job.expires_at, p_job.holds, p_job.flags, p_job.origin, p_job.timeout) is null then
        return query
        insert into treadle.jobs as job (
            job_type, priority, data, created_at, queue, run_at, key, max_attempts, partition, weight, headers
        )
        select
            p_job.job_type,
            p_job.priority,
            item.data::jsonb,
            p_job.created_at,
            p_job.queue,
            v_first + item.nth * interval '1 microsecond',
            item.key,
            p_job.max_attempts,
            coalesce(item.partition, ''),
            p_job.weight,
            p_job.headers
        from unnest(p_data, p_keys, p_partitions) with ordinality as item (data, key, partition, nth)
        returning job.id, null::varchar;
        return;
    end if;

    return query
    with added as (
        insert into treadle.jobs as job (
            job_type, priority, data, created_at, queue, run_at, key, max_attempts, unique_key, unique_while, expires_at,
            partition, weight, holds, flags, origin, headers, timeout
        )
        select
            p_job.job_type,
            p_job.priority,
            item.data::jsonb,
            p_job.created_at,
            p_job.queue,
            v_first + item.nth * interval '1 microsecond',
            item.key,
            p_job.max_attempts,
            wanted.unique_key,
            p_job.unique_while,
            p_job.expires_at,
            coalesce(item.partition, ''),
            p_job.weight,
            coalesce(p_job.holds, 0),
            coalesce(p_job.flags, 0),
            p_job.origin,
            p_job.headers,
            p_job.timeout
        from unnest(coalesce(p_nths, array(select generate_series(1, cardinality(p_data)))), p_unique) as wanted (nth, unique_key)
        join unnest(p_data, p_keys, p_partitions) with ordinality as item (data, key, partition, nth) on item.nth = wanted.nth
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
