-- Counts the failed attempts of a span of time, by group, that are not counted yet. Returns how many, and up to when:
-- all of the span, or less if more than p_limit attempts failed in it.
--
-- A flood of different messages must not fill the table. An exception has p_most groups in a job type, and a type four
-- times as many; other messages are counted together, by exception as long as a type has not eight times as many
-- groups, else by type.
create or replace function treadle.group_errors_between(
    p_from timestamptz,
    p_to timestamptz,
    p_limit int,
    p_most int default 50,
    out counted int,
    out reached timestamptz
)
language plpgsql
set enable_bitmapscan = off
set enable_mergejoin = off
set jit = off
as $$
declare
    c_other constant text := '(other messages)';
    v_jobs uuid[];
    v_times timestamptz[];
    v_types varchar[];
    v_queues varchar[];
    v_exceptions text[];
    v_messages text[];
    v_versions text[];
    v_with_version int[];
begin
    counted := 0;

    -- Stop at the first one above the limit. Many can fail at the same time, so advance by 1 ms at least.
    select error.failed_at
    into reached
    from treadle.errors as error
    where error.failed_at >= p_from
      and error.failed_at < p_to
    order by error.failed_at
    offset p_limit
    limit 1;
    reached := least(p_to, greatest(coalesce(reached, p_to), p_from + interval '1 millisecond'));

    with found as materialized (
        select
            error.job_id,
            error.failed_at,
            error.worker_id,
            left(error.error, 1001) as error,
            case when strpos(left(error.error, 1001), error.worker_id) > 0 then error.worker_id end as named
        from treadle.errors as error
        where error.failed_at >= p_from
          and error.failed_at < reached
          and not exists (
                select
                from treadle.grouped_errors as known
                where known.job_id = error.job_id
                  and known.failed_at = error.failed_at
          )
    ),
    -- The same text comes again and again, and is read once.
    texts as materialized (
        select text.error, text.named, normal.exception, normal.message
        from (select distinct found.error, found.named from found) as text
        cross join lateral treadle.normalise_error(text.error, text.named) as normal
    )
    select
        array_agg(found.job_id),
        array_agg(found.failed_at),
        array_agg(job.job_type),
        array_agg(job.queue),
        array_agg(texts.exception),
        array_agg(texts.message),
        array_agg(running.version)
    into v_jobs, v_times, v_types, v_queues, v_exceptions, v_messages, v_versions
    from found
    join texts on texts.error = found.error and coalesce(texts.named, '') = coalesce(found.named, '')
    -- One by one, by id; offset 0 keeps the planner from joining in another way.
    cross join lateral (
        select known.job_type, known.queue
        from treadle.jobs as known
        where known.id = found.job_id
        offset 0
    ) as job
    left join lateral (
        select known.version
        from treadle.worker_versions as known
        where known.worker_id = found.worker_id
          and known.registered_at <= found.failed_at
        order by known.registered_at desc
        limit 1
    ) as running on true;
    if v_jobs is null then
        return;
    end if;

    -- The groups that are new.
    with wanted as (
        select failed.job_type, failed.exception, failed.message, min(failed.at) as at
        from unnest(v_types, v_exceptions, v_messages, v_times) as failed (job_type, exception, message, at)
        group by failed.job_type, failed.exception, failed.message
    ),
    missing as (
        select wanted.*
        from wanted
        where not exists (
            select
            from treadle.error_groups as known
            where known.job_type = wanted.job_type
              and known.exception = wanted.exception
              and known.message = wanted.message
        )
    ),
    known as materialized (
        select
            known.job_type, known.exception, count(*) as groups,
            sum(count(*)) over (partition by known.job_type) as of_type
        from treadle.error_groups as known
        where known.job_type in (select missing.job_type from missing)
        group by known.job_type, known.exception
    ),
    ranked as (
        select
            missing.*,
            row_number() over (partition by missing.job_type, missing.exception order by missing.at, missing.message)
                + coalesce(known.groups, 0) as nth
        from missing
        left join known on known.job_type = missing.job_type and known.exception = missing.exception
    ),
    admitted as (
        select
            ranked.*,
            row_number() over (partition by ranked.job_type order by ranked.at, ranked.exception, ranked.message)
                + coalesce((select max(known.of_type) from known where known.job_type = ranked.job_type), 0) as nth_of_type
        from ranked
        where ranked.nth <= p_most
    )
    insert into treadle.error_groups (job_type, exception, message, first_seen, last_seen)
    select admitted.job_type, admitted.exception, admitted.message, admitted.at, admitted.at
    from admitted
    where admitted.nth_of_type <= 4 * p_most
    order by admitted.at
    on conflict do nothing;

    -- And those of other messages, for what has got none.
    with left_out as (
        select failed.job_type, failed.exception, min(failed.at) as at
        from unnest(v_types, v_exceptions, v_messages, v_times) as failed (job_type, exception, message, at)
        where not exists (
            select
            from treadle.error_groups as known
            where known.job_type = failed.job_type
              and known.exception = failed.exception
              and known.message in (failed.message, c_other)
        )
        group by failed.job_type, failed.exception
    ),
    ranked as (
        select
            left_out.*,
            row_number() over (partition by left_out.job_type order by left_out.at, left_out.exception)
                + (select count(*) from treadle.error_groups as known where known.job_type = left_out.job_type) as nth
        from left_out
    )
    insert into treadle.error_groups (job_type, exception, message, first_seen, last_seen)
    select
        ranked.job_type,
        case when ranked.nth <= 8 * p_most then ranked.exception else '' end,
        c_other,
        min(ranked.at),
        min(ranked.at)
    from ranked
    group by 1, 2
    on conflict do nothing;

    with failed as materialized (
        select failed.*
        from unnest(v_jobs, v_times, v_types, v_queues, v_exceptions, v_messages, v_versions)
            as failed (job_id, at, job_type, queue, exception, message, version)
    ),
    keys as materialized (
        select
            key.*,
            (
                select known.id
                from (values (1, key.exception, key.message), (2, key.exception, c_other), (3, '', c_other))
                    as wanted (nth, exception, message)
                join treadle.error_groups as known
                  on known.job_type = key.job_type
                 and known.exception = wanted.exception
                 and known.message = wanted.message
                order by wanted.nth
                limit 1
            ) as group_id
        from (select distinct failed.job_type, failed.exception, failed.message from failed) as key
    ),
    added as (
        insert into treadle.grouped_errors (job_id, failed_at, group_id)
        select failed.job_id, failed.at, keys.group_id
        from failed
        join keys
          on keys.job_type = failed.job_type
         and keys.exception = failed.exception
         and keys.message = failed.message
        order by failed.job_id, failed.at
        on conflict do nothing
        returning grouped_errors.job_id, grouped_errors.failed_at, grouped_errors.group_id
    ),
    new as materialized (
        select added.job_id, added.failed_at, added.group_id, failed.queue, failed.version
        from added
        join failed on failed.job_id = added.job_id and failed.at = added.failed_at
    ),
    by_hour as (
        insert into treadle.error_group_hours as known (group_id, hour, failures)
        select new.group_id, date_trunc('hour', new.failed_at, 'UTC'), count(*)
        from new
        group by 1, 2
        on conflict (group_id, hour) do update
        set failures = known.failures + excluded.failures
    ),
    by_version as (
        insert into treadle.error_group_versions as known (group_id, version, failures, first_seen, last_seen)
        select new.group_id, new.version, count(*), min(new.failed_at), max(new.failed_at)
        from new
        where new.version is not null
        group by new.group_id, new.version
        on conflict (group_id, version) do update
        set failures = known.failures + excluded.failures,
            first_seen = least(known.first_seen, excluded.first_seen),
            last_seen = greatest(known.last_seen, excluded.last_seen)
    ),
    changed as (
        select
            new.group_id,
            count(*) as failures,
            min(new.failed_at) as first_seen,
            max(new.failed_at) as last_seen,
            array_agg(distinct new.queue) as queues,
            array_agg(distinct new.version) filter (where new.version is not null) as versions,
            (array_agg(new.job_id order by new.failed_at desc))[1] as job_id
        from new
        group by new.group_id
    ),
    described as (
        select
            changed.*,
            before.muted_versions is not null and not changed.versions <@ before.muted_versions as unmuted,
            example.error,
            example.traceback,
            example.failed_at as example_at
        from changed
        join treadle.error_groups as before on before.id = changed.group_id
        left join lateral (
            select error.failed_at, left(error.error, 4000) as error, left(error.traceback, 20000) as traceback
            from treadle.errors as error
            where error.job_id = changed.job_id
              and error.failed_at = changed.last_seen
              and (before.example_at is null or before.example_at < changed.last_seen - interval '10 minutes')
        ) as example on true
    ),
    written as (
        update treadle.error_groups as known
        set failures = known.failures + described.failures,
            first_seen = least(known.first_seen, described.first_seen),
            last_seen = greatest(known.last_seen, described.last_seen),
            queues = case
                when described.queues <@ known.queues then known.queues
                else (known.queues || array(select unnest(described.queues) except select unnest(known.queues)))[1:10]
            end,
            example_job = case when described.example_at is null then known.example_job else described.job_id end,
            example_at = coalesce(described.example_at, known.example_at),
            example_error = case when described.example_at is null then known.example_error else described.error end,
            example_traceback = case when described.example_at is null then known.example_traceback else described.traceback end,
            -- A new version fails: whoever muted it wanted to know.
            (muted_at, muted_by, muted_reason, muted_until, muted_versions) = (
                select known.muted_at, known.muted_by, known.muted_reason, known.muted_until, known.muted_versions
                where described.unmuted is not true
            )
        from described
        where known.id = described.group_id
    )
    select count(*), array_agg(distinct new.group_id) filter (where new.version is not null)
    into counted, v_with_version
    from new;

    delete from treadle.error_group_versions as known
    using (
        select
            version.group_id,
            version.version,
            row_number() over (partition by version.group_id order by version.last_seen desc, version.version) as nth
        from treadle.error_group_versions as version
        where version.group_id = any (v_with_version)
    ) as old
    where known.group_id = old.group_id
      and known.version = old.version
      and old.nth > 20;
end
$$;
