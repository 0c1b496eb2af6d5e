-- A part of enqueue_with_options(): enqueues as many jobs as each unique key allows per period, and returns the latest
-- job for the others. Each key has per_period places; each job takes one for the length of the period. A call locks the
-- first place of its keys, so there is one at a time for each key.
create or replace function treadle.enqueue_per_period(
    p_job treadle.jobs,
    p_data text[],
    p_partitions varchar[],
    p_options treadle.enqueue_options
) returns table (nth int, id uuid, is_new boolean)
language plpgsql
as $$
declare
    v_wanted varchar[];
    v_locked int;
    v_now timestamptz;
    v_nths int[];
    v_keys varchar[];
    v_slots int[];
    v_ids uuid[];
begin
    v_wanted := array(select distinct item.unique_key from unnest(p_options.unique_keys) as item (unique_key));

    loop
        -- In the order of the keys, so that two calls cannot wait for each other.
        insert into treadle.unique_periods (job_type, unique_key, slot)
        select p_job.job_type, wanted.unique_key, 1
        from unnest(v_wanted) as wanted (unique_key)
        order by wanted.unique_key
        on conflict do nothing;

        select count(*)
        into v_locked
        from (
            select
            from treadle.unique_periods as period
            where period.job_type = p_job.job_type
              and period.unique_key = any (v_wanted)
              and period.slot = 1
            order by period.unique_key
            for update
        ) as locked;
        -- If there are fewer, some were just removed because they were not used any more: try again.
        exit when v_locked = cardinality(v_wanted);
    end loop;
    v_now := clock_timestamp();

    -- A place that was taken in the future is free: the server's clock was set back.
    with free as materialized (
        select
            wanted.unique_key, place.slot,
            row_number() over (partition by wanted.unique_key order by place.slot) as place
        from unnest(v_wanted) as wanted (unique_key)
        cross join generate_series(1, p_options.per_period) as place (slot)
        left join treadle.unique_periods as period
            on period.job_type = p_job.job_type
            and period.unique_key = wanted.unique_key
            and period.slot = place.slot
        where (period.taken_at <= v_now and period.taken_at > v_now - p_options.period) is not true
    ),
    item as materialized (
        select each.unique_key, each.nth, row_number() over (partition by each.unique_key order by each.nth) as place
        from unnest(p_options.unique_keys) with ordinality as each (unique_key, nth)
    )
    select
        array_agg(item.nth order by item.nth), array_agg(item.unique_key order by item.nth),
        array_agg(free.slot order by item.nth)
    into v_nths, v_keys, v_slots
    from item
    join free on free.unique_key = item.unique_key and free.place = item.place;

    v_ids := array(select added.id from treadle.insert_jobs(
        p_job, p_data, p_options.keys, p_partitions, coalesce(v_nths, '{}')
    ) as added);

    insert into treadle.unique_periods as period (job_type, unique_key, slot, job_id, taken_at, ends_at)
    select p_job.job_type, taken.unique_key, taken.slot, taken.id, v_now, v_now + p_options.period
    from unnest(v_keys, v_slots, v_ids) as taken (unique_key, slot, id)
    on conflict (job_type, unique_key, slot)
        do update set job_id = excluded.job_id, taken_at = excluded.taken_at, ends_at = excluded.ends_at;

    return query
    with latest as materialized (
        select distinct on (period.unique_key) period.unique_key, period.job_id
        from treadle.unique_periods as period
        where period.job_type = p_job.job_type
          and period.unique_key = any (v_wanted)
          and period.taken_at <= v_now
        order by period.unique_key, period.taken_at desc, period.slot desc
    )
    select item.nth::int, coalesce(taken.id, latest.job_id), taken.id is not null
    from unnest(p_options.unique_keys) with ordinality as item (unique_key, nth)
    left join unnest(v_nths, v_ids) as taken (nth, id) on taken.nth = item.nth
    left join latest on latest.unique_key = item.unique_key;
end
$$;
