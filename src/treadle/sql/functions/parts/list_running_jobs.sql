-- A part of lock_limits(): notes the jobs that are claimed or running under limits that are new, or whose kind, "per"
-- or jobs have changed (unlisted_limits), so that they count. Returns the limits of which that is not yet possible:
-- they give no room.
--
-- What a claim that began before the limit was committed takes is not visible before it ends. Such claims are found in
-- pg_locks: every claim reads the tick clock first, and holds the lock of that until its transaction ends. So the first
-- look notes who is claiming, and another one lists the jobs once more when all of those have ended.
create or replace function treadle.list_running_jobs() returns varchar[]
language plpgsql
as $$
declare
    c_patience constant interval := '10 seconds'; -- with claims that do not end
    v_now constant timestamptz := clock_timestamp();
    v_locked bigint[];
    v_claims text[];
    v_first bigint[];
    v_over bigint[];
    v_listed varchar[];
    v_closed varchar[];
begin
    v_locked := array(
        select known.id
        from treadle.unlisted_limits as known
        for update skip locked
    );

    -- After the limits are seen, and before the jobs are read.
    v_claims := array(
        select claiming.virtualtransaction
        from pg_catalog.pg_locks as claiming
        where claiming.locktype = 'relation'
          and claiming.database = (select base.oid from pg_catalog.pg_database as base where base.datname = current_database())
          and claiming.relation = 'treadle.tick_clock'::regclass
          and claiming.mode = 'RowExclusiveLock'
          and claiming.pid is distinct from pg_backend_pid()
    );

    -- What another claim has locked, that one knows. Its transaction may stay open: nobody waits for it.
    select
        array_agg(look.id) filter (where look.is_first),
        array_agg(look.id) filter (where look.is_over and look.is_locked),
        array_agg(look.name) filter (where look.is_over or look.is_first or look.is_late and not look.is_locked),
        array_agg(look.name) filter (where not look.is_over and (look.is_first or not look.is_late))
    into v_first, v_over, v_listed, v_closed
    from (
        select
            known.id,
            known.name,
            own.is_locked,
            own.is_locked and known.claims is null as is_first,
            known.noted_at < v_now - c_patience as is_late,
            not exists (
                select
                from unnest(v_claims) as claiming (id)
                where claiming.id = any (coalesce(known.claims, v_claims))
                  and (
                        own.is_locked
                        or not exists (
                            select
                            from pg_catalog.pg_locks as locker
                            where locker.locktype = 'transactionid'
                              and locker.transactionid = known.xmax
                              and locker.virtualtransaction = claiming.id
                              and locker.mode = 'ExclusiveLock'
                        )
                  )
            ) as is_over
        from treadle.unlisted_limits as known
        cross join lateral (select known.id = any (v_locked) as is_locked) as own
    ) as look;

    insert into treadle.unlisted_jobs (name, key, job, lease, weight)
    select rule.name, rule.key, job.id, job.lease, coalesce(job.weight, 1)
    from treadle.jobs as job
    cross join lateral treadle.limits_of_job(job.queue, job.job_type, job.partition, job.data) as rule
    where job.status in ('claimed', 'running')
      and rule.kind = 'concurrency'
      and rule.name = any (v_listed);

    update treadle.unlisted_limits as known
    set noted_at = v_now,
        claims = v_claims
    where known.id = any (v_first);
    delete from treadle.unlisted_limits as known
    where known.id = any (v_over);
    return coalesce(v_closed, '{}');
end
$$;
