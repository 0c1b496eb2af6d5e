-- How many jobs there are by status, and how many are blocked. Pending jobs: see find_depths().
--
-- Up to p_most of each are counted: then exact is true. Of more finished jobs, the number is the one that workers
-- counted at counted_at (see count_depths.sql). If none has, exact is false and counted_at null: there are at least so
-- many.
create or replace function treadle.count_statuses(p_most int default 20000)
returns table (status varchar, jobs bigint, exact boolean, counted_at timestamptz)
language plpgsql stable
set treadle.plan = index_ranges
as $$
#variable_conflict use_column
declare
    -- As in find_depths.sql, but longer: without workers, few jobs finish.
    c_fresh constant interval := '5 minutes';
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    select
        counted.status,
        case when counted.jobs < p_most then counted.jobs else greatest(counted.jobs, counted.kept) end,
        coalesce(counted.jobs < p_most, false),
        case when counted.jobs < p_most then null else counted.counted_at end
    from (
        select kind.status, kept.jobs as kept, kept.counted_at, counted.jobs
        from unnest(array['completed', 'failed', 'cancelled']::varchar[]) as kind (status)
        left join lateral treadle.kept_depth(kind.status, row('', '', 0, '')::treadle.lane) as kept on true
        left join lateral (
            select count(*) as jobs
            from (
                select
                from treadle.jobs as job
                where job.status in ('completed', 'failed', 'cancelled')
                  and job.status = kind.status
                  and coalesce(kept.counted_at between v_now - c_fresh and v_now + c_fresh, false) is false
                -- The newest first: an open snapshot keeps the index entries of those that were pruned.
                order by job.finished_at desc
                limit p_most
            ) as few
            having coalesce(kept.counted_at between v_now - c_fresh and v_now + c_fresh, false) is false
        ) as counted on true
    ) as counted
    union all
    select kind.status, counted.jobs, counted.jobs < p_most, null
    from unnest(array['claimed', 'running']::varchar[]) as kind (status)
    cross join lateral (
        select count(*) as jobs
        from (
            select
            from treadle.jobs as job
            where job.status in ('claimed', 'running')
              and job.status = kind.status
            order by job.worker_id
            limit p_most
        ) as few
    ) as counted
    union all
    select 'blocked', counted.jobs, counted.jobs < p_most, null
    from (
        select count(*) as jobs
        from (
            select
            from treadle.jobs as job
            where job.status = 'pending'
              and job.holds <> 0
            order by job.id desc
            limit p_most
        ) as few
    ) as counted;
end
$$;
