-- Deletes groups of errors that were not seen for p_keep. Returns how many. Workers call it every minute. It deletes at
-- most p_limit rows of grouped_errors; later calls delete the rest.
create or replace function treadle.prune_error_groups(
    p_keep interval default '30 days',
    p_limit int default 10000
) returns int
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_old int[];
    v_deleted int;
begin
    if not pg_try_advisory_xact_lock(hashtext('treadle group errors'), hashoid('treadle.error_meter'::regclass)) then
        return 0;
    end if;

    delete from treadle.error_group_hours as hours
    where hours.hour < v_now - interval '7 days';

    delete from treadle.worker_versions as version
    where version.registered_at < v_now - interval '7 days'
      and not exists (select from treadle.workers as worker where worker.worker_id = version.worker_id);

    delete from treadle.deployments as deployment
    where deployment.first_seen < v_now - interval '30 days'
      and not exists (select from treadle.worker_versions as running where running.version = deployment.version);

    select array_agg(old.id)
    into v_old
    from (
        select known.id
        from treadle.error_groups as known
        where known.last_seen < v_now - p_keep
        order by known.last_seen
        limit 100
    ) as old;
    if v_old is null then
        return 0;
    end if;

    delete from treadle.grouped_errors as counted
    using (
        select known.job_id, known.failed_at
        from treadle.grouped_errors as known
        where known.group_id = any (v_old)
        limit p_limit
    ) as old
    where counted.job_id = old.job_id
      and counted.failed_at = old.failed_at;

    delete from treadle.error_groups as known
    where known.id = any (v_old)
      and not exists (select from treadle.grouped_errors as counted where counted.group_id = known.id);
    get diagnostics v_deleted = row_count;

    delete from treadle.error_group_hours as hours
    where hours.group_id = any (v_old)
      and not exists (select from treadle.error_groups as known where known.id = hours.group_id);
    delete from treadle.error_group_versions as version
    where version.group_id = any (v_old)
      and not exists (select from treadle.error_groups as known where known.id = version.group_id);
    return v_deleted;
end
$$;
