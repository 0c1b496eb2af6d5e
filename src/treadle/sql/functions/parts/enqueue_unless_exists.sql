-- The part of enqueue_with_options() for unique keys that one job has at a time: until it is finished, or until it is claimed.
-- The unique index of jobs makes sure of it; what is read before the INSERT only avoids waiting for transactions that are about
-- to finish such a job.
--
-- A pending job that is returned instead of a new one stays locked until the caller's transaction ends: so it does not begin
-- before what the caller has written is visible. (If the key lasts until the job is finished, then it may be running already, and
-- there is no such promise.) Claims skip locked jobs.
--
-- Rows are locked and inserted in the order of the unique keys, so that two calls at the same time cannot wait for each other;
-- jobs with a key are inserted in the order of the list, because the order within a key is that of the ids.
create or replace function treadle.enqueue_unless_exists(
    p_job treadle.jobs,
    p_data text[],
    p_unique varchar[],
    p_keys varchar[],
    p_on_conflict varchar[],
    p_latest interval
) returns table (nth int, id uuid, is_new boolean, is_changed boolean)
language plpgsql
set enable_seqscan = off
as $$
declare
    v_change constant boolean := p_on_conflict <> '{}';
    v_replace constant boolean := 'replace' = any (p_on_conflict);
    v_reschedule constant boolean := 'reschedule' = any (p_on_conflict);
    v_prioritize constant boolean := 'prioritize' = any (p_on_conflict);
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
        from unnest(p_unique) with ordinality as item (unique_key, nth)
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

                update treadle.jobs as job
                set data = case when v_replace then item.data::jsonb else job.data end,
                    checkpoint = case when not v_replace then job.checkpoint end,
                    run_at = case
                        when v_reschedule then greatest(least(p_job.run_at, job.created_at + p_latest), p_job.created_at)
                        else job.run_at
                    end,
                    priority = case when v_prioritize then greatest(job.priority, p_job.priority) else job.priority end,
                    -- It is counted from when the job is due.
                    expires_at = coalesce(
                        p_job.expires_at,
                        case
                            when v_reschedule
                            then job.expires_at - job.run_at
                                + greatest(least(p_job.run_at, job.created_at + p_latest), p_job.created_at)
                        end,
                        job.expires_at
                    )
                from unnest(v_wanted, v_nths) as chosen (unique_key, nth)
                join unnest(p_data) with ordinality as item (data, nth) on item.nth = chosen.nth
                where job.id = any (v_ids)
                  and chosen.unique_key = job.unique_key;

                -- Its earlier attempts, if there were any, worked on the other payload.
                delete from treadle.steps as step
                where v_replace
                  and step.job_id = any (v_ids);

                insert into treadle.expiries (look_at, job_id)
                select job.expires_at, job.id
                from treadle.jobs as job
                where job.id = any (v_ids)
                  and job.expires_at is not null
                on conflict do nothing;

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

        with added as (
            insert into treadle.jobs as job (
                job_type, priority, data, created_at, queue, run_at, key, max_attempts, unique_key, unique_while, expires_at
            )
            select
                p_job.job_type,
                p_job.priority,
                item.data::jsonb,
                p_job.created_at,
                p_job.queue,
                p_job.run_at - (cardinality(p_data) - item.nth) * interval '1 microsecond',
                item.key,
                p_job.max_attempts,
                chosen.unique_key,
                p_job.unique_while,
                p_job.expires_at
            from unnest(v_wanted, v_nths) as chosen (unique_key, nth)
            join unnest(p_data, p_keys) with ordinality as item (data, key, nth) on item.nth = chosen.nth
            order by item.key, case when item.key is null then chosen.unique_key end, item.nth
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
        select array_agg(added.id), array_agg(added.unique_key)
        into v_ids, v_keys
        from added;

        -- New ones are returned at once, others with what is found in the next round.
        return query
        select item.nth::int, added.id, item.place = 1, v_replace and item.place > 1
        from unnest(v_ids, v_keys) as added (id, unique_key)
        join (
            select each.unique_key, each.nth, row_number() over (partition by each.unique_key order by each.nth) as place
            from unnest(p_unique) with ordinality as each (unique_key, nth)
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
    join unnest(p_unique) with ordinality as item (unique_key, nth) on item.unique_key = found.unique_key;
end
$$;

comment on function treadle.enqueue_unless_exists(treadle.jobs, text[], varchar[], varchar[], varchar[], interval)
    is 'Enqueues jobs whose unique key no other job has, and returns or changes the others.';
