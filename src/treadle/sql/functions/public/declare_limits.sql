-- A worker declares the limits in its code, when it starts and every minute: a list of objects with name, per, amount, seconds,
-- burst, fair, when_full, digest, job_types and queues. As with schedules, the version of the code that was seen first later is in force, and
-- what no worker has declared for ten minutes is removed. What an operator has changed stays.
create or replace function treadle.declare_limits(p_limits jsonb) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_limit record;
begin
    for v_limit in
        select
            declared.*,
            jsonb_build_object('amount', declared.amount, 'seconds', declared.seconds, 'burst', declared.burst) as declared
        from jsonb_to_recordset(p_limits) as declared (
            name varchar, per varchar, amount int, seconds double precision, burst int, fair boolean, when_full varchar, digest varchar,
            job_types varchar[], queues varchar[]
        )
        order by declared.name
    loop
        insert into treadle.limits as known (name, per, amount, period, burst, fair, when_full, declared, digest, declared_at)
        values (
            v_limit.name, v_limit.per, v_limit.amount, v_limit.seconds * interval '1 second', v_limit.burst,
            coalesce(v_limit.fair, false), v_limit.when_full, v_limit.declared, v_limit.digest, v_now
        )
        on conflict (name) do update
        set per = excluded.per,
            amount = case when known.changed_by is null then excluded.amount else known.amount end,
            period = case when known.changed_by is null then excluded.period else known.period end,
            burst = case when known.changed_by is null then excluded.burst else known.burst end,
            when_full = excluded.when_full,
            declared = excluded.declared,
            digest = excluded.digest,
            former_digests = (array_remove(known.digest || known.former_digests, excluded.digest))[:20],
            declared_at = v_now
        where known.digest is distinct from excluded.digest
          and (excluded.digest <> all (known.former_digests) or known.declared_at < v_now - interval '2 minutes');
        if found then
            perform treadle.reopen_limit(v_limit.name);
        end if;

        update treadle.limits as known
        set declared_at = v_now
        where known.name = v_limit.name
          and known.digest = v_limit.digest
          and known.declared_at < v_now - interval '30 seconds';

        insert into treadle.limit_targets as known (job_type, queue, name, declared_at)
        select target.job_type, target.queue, v_limit.name, v_now
        from (
            select unnest(v_limit.job_types) as job_type, '' as queue
            union all
            select '', unnest(v_limit.queues)
        ) as target
        on conflict (job_type, queue, name) do update
        set declared_at = v_now
        where known.declared_at < v_now - interval '30 seconds';

        if v_limit.per <> '' then
            perform treadle.move_to_partitions(job_type) from unnest(v_limit.job_types) as job_type;
        end if;
    end loop;

    delete from treadle.limit_targets as known
    where known.declared_at < v_now - interval '10 minutes';
    for v_limit in
        delete from treadle.limits as known
        where known.declared_at < v_now - interval '10 minutes'
        returning known.name
    loop
        perform treadle.forget_limit(v_limit.name);
    end loop;
end
$$;

comment on function treadle.declare_limits(jsonb) is 'Declares the limits of a worker''s code.';
