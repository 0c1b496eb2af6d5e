-- Declares the schedules of a worker's code, when it starts and every minute. Returns the names of those that are in
-- force as declared. Name and digest are enough for those; a worker then declares the others in full.
--
-- While two versions of the code run side by side, the one that was seen first later is in force. The other takes over
-- only after nobody has declared the newer one for two minutes: then that version was rolled back.
--
-- What no worker has declared for ten minutes is retired, unless a worker sleeps that may have declared it. If it is
-- declared again within a day, the times in between are missed ones; after a day it begins anew.
create or replace function treadle.declare_schedules(p_schedules jsonb) returns varchar[]
language plpgsql
as $$
declare
    v_declared treadle.schedules;
    v_known treadle.schedules;
    v_now timestamptz := clock_timestamp();
    -- Workers that sleep do not declare their schedules, which may be any.
    v_heard timestamptz := least(
        v_now,
        (
            select min(worker.asleep_at)
            from treadle.workers as worker
            where worker.lost_at is null
              and worker.seen_at >= v_now - worker.lease
        )
    );
begin
    -- Renewed, but not by every worker, and not while another worker renews or enqueues them.
    update treadle.schedules as known
    set declared_at = v_now,
        retired_at = null,
        next_at = case when known.declared_at > v_now - interval '1 day' then known.next_at end
    where known.name = any (
        array(
            select same.name
            from treadle.schedules as same
            join jsonb_to_recordset(p_schedules) as declared (name varchar, digest varchar)
                on declared.name = same.name and declared.digest = same.digest
            where same.declared_at < v_now - interval '30 seconds'
            for update of same skip locked
        )
    );

    for v_declared in
        select declared.*
        from jsonb_populate_recordset(null::treadle.schedules, p_schedules) as declared
        where declared.expression is not null
        order by declared.name
    loop
        insert into treadle.schedules as known (name, job_type, expression, digest, declared_at)
        values (v_declared.name, v_declared.job_type, v_declared.expression, v_declared.digest, v_now)
        on conflict (name) do nothing
        returning known.* into v_known;
        if found then
            perform treadle.change_schedule(v_known, v_declared);
            continue;
        end if;

        select known.* into v_known
        from treadle.schedules as known
        where known.name = v_declared.name
        for update;

        if v_known.digest <> v_declared.digest
            and (
                v_declared.digest <> all (v_known.former_digests)
                or v_known.declared_at < v_heard - interval '2 minutes'
            )
        then
            perform treadle.change_schedule(v_known, v_declared, v_known.declared_at > v_now - interval '1 day');
            update treadle.schedules as known
            set digest = v_declared.digest,
                former_digests = (array_remove(known.digest || known.former_digests, v_declared.digest))[:20],
                declared_at = v_now,
                retired_at = null
            where known.name = v_declared.name;
        end if;
    end loop;

    update treadle.schedules as known
    set retired_at = v_now
    where known.digest is not null
      and known.retired_at is null
      and known.declared_at < v_heard - interval '10 minutes';
    return array(
        select known.name
        from treadle.schedules as known
        join jsonb_to_recordset(p_schedules) as declared (name varchar, digest varchar)
            on declared.name = known.name and declared.digest = known.digest
    );
end
$$;
