-- A part of enqueue_with_options(): enqueues jobs whose unique key no other job has, until that one is finished or
-- claimed, and returns or changes the others. The unique index of jobs makes sure of it; what is read before the INSERT
-- only avoids waiting for transactions that are about to finish such a job.
--
-- A pending job that is returned instead of a new one stays locked until the caller's transaction ends: so it does not
-- begin before what the caller has written is visible. (If the key lasts until the job is finished, it may be running
-- already.) Rows are locked and inserted in the order of the unique keys, so that two calls cannot wait for each other.
create or replace function treadle.enqueue_unless_exists(
    p_job treadle.jobs,
    p_data text[],
    p_partitions varchar[],
    p_options treadle.enqueue_options
) returns table (nth int, id uuid, is_new boolean, is_changed boolean)
language plpgsql
as $$
declare
    v_change constant boolean := p_options.on_conflict <> '{}';
    v_replace constant boolean := 'replace' = any (p_options.on_conflict);
    -- On an older snapshot, a job that exists may have finished since: then only the INSERT can tell.
    v_look boolean := treadle.is_read_committed();
    v_wanted varchar[]; -- the unique keys for which there is no job yet
    v_nths int[]; -- and whose payload it gets
    v_ids uuid[];
    v_keys varchar[];
    v_all_ids uuid[] := '{}';
    v_all_keys varchar[] := '{}';
    v_changed uuid[] := '{}';
begin
    select array_agg(chosen.unique_key), array_agg(chosen.nth)
    into v_wanted, v_nths
    from (
        select item.unique_key, case when v_replace then max(item.nth) else min(item.nth) end as nth
        from unnest(p_options.unique_keys) with ordinality as item (unique_key, nth)
        group by item.unique_key
    ) as chosen;

    while v_wanted is not null loop
        if v_look then
            -- One that has expired is about to be cancelled: it cannot stand for this call.
            v_ids := array(
                select job.id
                from treadle.jobs as job
                where job.unique_key = any (v_wanted)
                  and job.job_type = p_job.job_type
                  and job.status = 'pending'
                  and job.expires_at <= clock_timestamp()
                order by job.unique_key
                for no key update
            );
            if v_ids <> '{}' then
                perform treadle.cancel_expired(v_ids);
            end if;

            if v_change then
                select array_agg(locked.id), array_agg(locked.unique_key)
                into v_ids, v_keys
                from (
                    select job.id, job.unique_key
                    from treadle.jobs as job
                    where job.unique_key = any (v_wanted)
                      and job.job_type = p_job.job_type
                      and job.status = 'pending'
                    order by job.unique_key
                    for no key update
                ) as locked;

                perform treadle.change_unique_jobs(p_job, p_data, p_partitions, p_options, v_nths, v_wanted, v_ids);
                v_changed := v_changed || v_ids;
            else
                select array_agg(locked.id), array_agg(locked.unique_key)
                into v_ids, v_keys
                from (
                    select job.id, job.unique_key
                    from treadle.jobs as job
                    where job.unique_key = any (v_wanted)
                      and job.job_type = p_job.job_type
                      and job.status = 'pending'
                      and job.unique_while = 'pending'
                    order by job.unique_key
                    for share
                ) as locked;
            end if;
            v_all_ids := v_all_ids || v_ids;
            v_all_keys := v_all_keys || v_keys;

            select array_agg(job.id), array_agg(job.unique_key)
            into v_ids, v_keys
            from treadle.jobs as job
            where job.unique_key = any (v_wanted)
              and job.job_type = p_job.job_type
              and job.status in ('pending', 'claimed', 'running')
              and (job.status <> 'pending' or not v_change and job.unique_while is null);
            v_all_ids := v_all_ids || v_ids;
            v_all_keys := v_all_keys || v_keys;

            select array_agg(chosen.unique_key), array_agg(chosen.nth)
            into v_wanted, v_nths
            from unnest(v_wanted, v_nths) as chosen (unique_key, nth)
            where not exists (
                select
                from unnest(v_all_keys) as known (unique_key)
                where known.unique_key = chosen.unique_key
            );
            exit when v_wanted is null;
        end if;

        select array_agg(added.id), array_agg(added.unique_key)
        into v_ids, v_keys
        from treadle.insert_jobs(p_job, p_data, p_options.keys, p_partitions, v_nths, v_wanted) as added;

        -- New ones are returned at once, others with what is found in the next round.
        return query
        select item.nth::int, added.id, item.place = 1, v_replace and item.place > 1
        from unnest(v_ids, v_keys) as added (id, unique_key)
        join (
            select
                each.unique_key, each.nth, row_number() over (partition by each.unique_key order by each.nth) as place
            from unnest(p_options.unique_keys) with ordinality as each (unique_key, nth)
        ) as item on item.unique_key = added.unique_key;

        select array_agg(chosen.unique_key), array_agg(chosen.nth)
        into v_wanted, v_nths
        from unnest(v_wanted, v_nths) as chosen (unique_key, nth)
        where not exists (
            select
            from unnest(v_keys) as known (unique_key)
            where known.unique_key = chosen.unique_key
        );
        v_look := true;
        -- This call may have waited for other transactions.
        p_job.created_at := clock_timestamp();
        p_job.run_at := greatest(p_job.run_at, p_job.created_at);
    end loop;

    return query
    select item.nth::int, found.id, false, found.id = any (v_changed)
    from unnest(v_all_ids, v_all_keys) as found (id, unique_key)
    join unnest(p_options.unique_keys) with ordinality as item (unique_key, nth) on item.unique_key = found.unique_key;
end
$$;
