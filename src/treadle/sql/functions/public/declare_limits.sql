-- Declares the limits of a worker's code, and the fairness and aging of its job types, when the worker starts and every
-- minute: p_limits are objects with name, kind, per, amount, seconds, burst, when_full, digest, job_types and queues;
-- p_settings, objects with job_type, fair_by, weights_of, aging_seconds, aging_share and digest. As with schedules, the
-- version of the code that was seen first later is in force, and what no worker has declared for ten minutes is
-- removed. What an operator has changed stays, unless the code has made it another kind of limit.
create or replace function treadle.declare_limits(p_limits jsonb, p_settings jsonb default '[]') returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_fresh constant timestamptz := v_now - interval '30 seconds'; -- not to be noted again
    -- An earlier version is in force again if no newer one was seen since.
    v_newer constant timestamptz := v_now - interval '2 minutes';
    v_removed constant timestamptz := v_now - interval '10 minutes';
    v_limit record;
begin
    for v_limit in
        select
            declared.*,
            jsonb_build_object(
                'kind', declared.kind, 'amount', declared.amount, 'seconds', declared.seconds, 'burst', declared.burst
            ) as declared
        from jsonb_to_recordset(p_limits) as declared (
            name varchar, kind varchar, per varchar, amount int, seconds double precision, burst int, when_full varchar,
            digest varchar, job_types varchar[], queues varchar[]
        )
        order by declared.name
    loop
        insert into treadle.limits as known (name, kind, per, amount, period, burst, when_full, declared, digest, declared_at)
        values (
            v_limit.name, v_limit.kind, v_limit.per, v_limit.amount, v_limit.seconds * interval '1 second',
            v_limit.burst, v_limit.when_full, v_limit.declared, v_limit.digest, v_now
        )
        on conflict (name) do update
        set (kind, amount, period, burst, when_full, changed_by, changed_at) = (
                select
                    known.kind, known.amount, known.period, known.burst, known.when_full, known.changed_by,
                    known.changed_at
                where known.changed_by is not null
                  and coalesce(known.declared ->> 'kind', v_limit.kind) = v_limit.kind
                union all
                select excluded.kind, excluded.amount, excluded.period, excluded.burst, excluded.when_full, null, null
                limit 1
            ),
            per = excluded.per,
            declared = excluded.declared,
            digest = excluded.digest,
            former_digests = (array_remove(known.digest || known.former_digests, excluded.digest))[:20],
            declared_at = v_now
        where known.digest is distinct from excluded.digest
          and (excluded.digest <> all (known.former_digests) or known.declared_at < v_newer);
        if found then
            perform treadle.reopen_limit(v_limit.name);
        end if;

        update treadle.limits as known
        set declared_at = v_now
        where known.name = v_limit.name
          and known.digest = v_limit.digest
          and known.declared_at < v_fresh;

        insert into treadle.limit_targets as known (job_type, queue, name, declared_at)
        select target.job_type, target.queue, v_limit.name, v_now
        from (
            select unnest(v_limit.job_types) as job_type, '' as queue
            union all
            select '', unnest(v_limit.queues)
        ) as target
        on conflict (job_type, queue, name) do update
        set declared_at = v_now
        where known.declared_at < v_fresh;

        if v_limit.per <> '' then
            perform treadle.move_to_partitions(job_type) from unnest(v_limit.job_types) as job_type;
        end if;
    end loop;

    delete from treadle.limit_targets as known
    where known.declared_at < v_removed;
    for v_limit in
        delete from treadle.limits as known
        where known.declared_at < v_removed
        returning known.name
    loop
        perform treadle.forget_limit(v_limit.name);
    end loop;

    with declared as materialized (
        select setting.*, setting.aging_seconds * interval '1 second' as aging_after
        from jsonb_to_recordset(p_settings) as setting (
            job_type varchar, fair_by varchar, weights_of varchar, aging_seconds double precision, aging_share int,
            digest varchar
        )
        order by setting.job_type
    )
    insert into treadle.type_settings as known (
        job_type, fair_by, weights_of, aging_after, aging_share, declared, digest, declared_at
    )
    select
        declared.job_type, declared.fair_by, declared.weights_of, declared.aging_after, declared.aging_share,
        jsonb_build_object('seconds', declared.aging_seconds, 'amount', declared.aging_share), declared.digest, v_now
    from declared
    on conflict (job_type) do update
    set fair_by = excluded.fair_by,
        weights_of = excluded.weights_of,
        (aging_after, aging_share, changed_by, changed_at) = (
            select known.aging_after, known.aging_share, known.changed_by, known.changed_at
            where known.changed_by is not null
              and excluded.aging_after is not null
            union all
            select excluded.aging_after, excluded.aging_share, null, null
            limit 1
        ),
        declared = excluded.declared,
        digest = excluded.digest,
        former_digests = case
            when known.digest = excluded.digest then known.former_digests
            else (array_remove(known.digest || known.former_digests, excluded.digest))[:20]
        end,
        declared_at = v_now
    where case
            when known.digest = excluded.digest then known.declared_at < v_fresh
            else excluded.digest <> all (known.former_digests) or known.declared_at < v_newer
          end;

    delete from treadle.type_settings as known
    where known.declared_at < v_removed;
    delete from treadle.fair_weights as known
    where not exists (select from treadle.type_settings as setting where setting.weights_of = known.job_type);

    delete from treadle.limit_targets as known
    where known.name = ''
      and not exists (select from treadle.type_settings as setting where setting.job_type = known.job_type);
    insert into treadle.limit_targets (job_type, name)
    select setting.job_type, ''
    from treadle.type_settings as setting
    on conflict do nothing;

    perform treadle.move_to_partitions(setting.job_type)
    from jsonb_to_recordset(p_settings) as setting (job_type varchar, fair_by varchar)
    where setting.fair_by <> '';
end
$$;
