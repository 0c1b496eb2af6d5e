-- The limits and their keys that are in use, changed or waited for, and fairness and aging: what is in force, what is
-- in use, when the next job may start, and how many wait (counted up to counted_to). Those that jobs wait for come
-- first. There is a row for each (for one with "per", the values for all keys, with a null key), and one for each key.
-- At most p_limit rows; half of them are left to the limits themselves.
--
-- The cost is bounded: candidates are read from the beginning of an index, one step per key; for the rest, see
-- limit_statuses.sql. The settings fix the plan, as in find_lanes.sql.
create or replace function treadle.find_limits(p_name varchar default null, p_limit int default 100)
returns table (
    name varchar, kind varchar, per varchar, key varchar, job_types varchar[], queues varchar[],
    when_full varchar, amount int, seconds double precision, burst int,
    in_code boolean, declared_amount int, declared_seconds double precision, declared_burst int,
    changed_by text, changed_at timestamptz,
    in_use bigint, available int, opens_at timestamptz, frees_at timestamptz,
    lanes bigint, waiting bigint, counted_to int, at timestamptz
)
language plpgsql stable
set treadle.plan = index_ranges
as $$
#variable_conflict use_column
declare
    c_running constant int := 5000;
    v_now constant timestamptz := clock_timestamp();
    v_names varchar[];
    v_keys varchar[];
begin
    with rule as materialized (
        select known.name, known.kind, known.per, known.setting_of, row_number() over (order by known.name) as nth
        from treadle.limits_and_settings() as known
        where p_name is null or known.name = p_name
        order by known.name
        limit p_limit
    ),
    running as materialized (
        select distinct job.queue, job.job_type, job.partition
        from (
            select job.queue, job.job_type, job.partition, job.flags
            from treadle.jobs as job
            where job.status in ('claimed', 'running')
            limit c_running
        ) as job
        where job.flags & treadle.flag_limited() <> 0
    ),
    candidate as (
        select 2 as rank, waiting.name, waiting.key
        from treadle.waiting_limits(p_name, p_limit) as waiting
        union all
        select case when rule.nth <= (p_limit + 1) / 2 then 1 else 3 end, rule.name, case when rule.per = '' then '' end
        from rule
        union all
        (
            select 4, own.name, own.key
            from treadle.limit_keys as own
            where own.changed_by is not null
              and (p_name is null or own.name = p_name)
            order by own.name, own.key
            limit p_limit
        )
        union all
        (
            select 4, rule.name, own.key
            from rule
            join treadle.fair_weights as own on own.job_type = rule.setting_of
            where rule.kind = 'fairness'
            order by rule.name, own.key
            limit p_limit
        )
        union all
        select 5, used.name, used.key
        from running
        cross join lateral treadle.limits_of(running.queue, running.job_type, running.partition) as used
        where used.kind = 'concurrency'
          and (p_name is null or used.name = p_name)
        union all
        -- Of rates, keys that were used lately.
        select 6, rule.name, used.key
        from rule
        cross join lateral (
            with recursive holders as (
                (
                    -- Backwards: the newest row of each key comes first.
                    select newest.key, newest.full_at
                    from treadle.limit_holders as newest
                    where newest.name = rule.name
                    order by newest.key desc, newest.version desc
                    limit 1
                )
                union all
                select following.*
                from holders
                cross join lateral (
                    select newest.key, newest.full_at
                    from treadle.limit_holders as newest
                    where newest.name = rule.name
                      and newest.key < holders.key
                    order by newest.key desc, newest.version desc
                    limit 1
                ) as following
            )
            select known.key
            from (
                select holders.*
                from holders
                limit p_limit
            ) as known
            where known.full_at > v_now
        ) as used
        where rule.kind = 'rate'
          and rule.per <> ''
    ),
    chosen as (
        select candidate.name, candidate.key, min(candidate.rank) as rank
        from candidate
        join treadle.limits_and_settings() as known on known.name = candidate.name
        group by candidate.name, candidate.key
        order by min(candidate.rank), candidate.name, candidate.key
        limit p_limit
    )
    select array_agg(chosen.name), array_agg(chosen.key)
    into v_names, v_keys
    from chosen;

    return query
    select status.*
    from treadle.limit_statuses(v_names, v_keys) as status;
end
$$;
