-- Marks claimed jobs as running for p_seconds, with this progress, stage and pace (null: unchanged). Returns the ids
-- that were accepted; the claims of the others are lost.
create or replace function treadle.report_jobs(
    p_worker_id varchar,
    p_ids uuid[],
    p_leases bigint[],
    p_seconds double precision[],
    p_progress int[] default null,
    p_stages varchar[] default null,
    p_paces text[] default null
) returns setof uuid
language plpgsql
set treadle.plan = cached_index_ranges
-- A row that another transaction keeps locked must not delay the worker's other writes.
set lock_timeout = '1s'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    with report as materialized (
        select report.id, report.lease, report.seconds, report.progress, report.stage, report.pace::jsonb as pace
        from unnest(p_ids, p_leases, p_seconds, p_progress, p_stages, p_paces)
            as report (id, lease, seconds, progress, stage, pace)
        order by report.id
    )
    update treadle.jobs as job
    set status = 'running',
        started_at = coalesce(job.started_at, v_now - report.seconds * interval '1 second'),
        -- The first report of an attempt resets the values of the attempt before.
        progress = coalesce(report.progress, case job.status when 'running' then job.progress else 0 end),
        current_stage = coalesce(report.stage, case job.status when 'running' then job.current_stage end),
        pace = coalesce(report.pace, case job.status when 'running' then job.pace end)
    from report
    where job.id = report.id
      and job.lease = report.lease
      and job.worker_id is not distinct from p_worker_id
      and job.status <> 'pending'
      and job.finished_at is null
    returning job.id;

    perform treadle.announce(p_ids, 'news');
end
$$;
