-- Whether jobs with these partitions may be enqueued, as far as max_pending is concerned. Where the oldest jobs are to
-- be dropped, it drops them, but none of a higher priority.
--
-- The bound is not exact: jobs of transactions that are still open are not counted, because enqueuers would have to
-- wait for each other. And to count many jobs takes time: so a session remembers what it has counted, adds what it
-- enqueues itself, and counts again after a while, or when the bound seems to be reached. What it remembers is undone
-- if the transaction is rolled back. It is sealed: any role can set a setting of its session, but only the owner can
-- read the secret. In SERIALIZABLE, counting would make enqueuers abort each other: nothing is checked.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read or cancel jobs.
create or replace function treadle.make_room(
    p_job_type varchar,
    p_queue varchar,
    p_priority int,
    p_partitions varchar[],
    p_added uuid[] default null -- they have been enqueued already, or exist: they count, and are not dropped
) returns boolean
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    c_counted_at_once constant int := 1000; -- so many are counted every time
    c_counted_per_second constant int := 20000;
    c_excess constant int := 100; -- how many too many are dropped at once
    v_bound record;
    v_digest text;
    v_setting text; -- one of 256
    v_sealed text;
    v_known text[];
    v_secret uuid;
    v_now double precision;
    v_pause double precision;
    v_pending int;
    v_fits boolean;
    v_dropped boolean := false;
begin
    if current_setting('transaction_isolation') = 'serializable' then
        return true;
    end if;

    begin
        for v_bound in
            select
                rule.name, rule.per, rule.when_full, arrived.key, coalesce(own.amount, rule.amount) as amount,
                arrived.jobs
            from (
                select distinct target.name
                from treadle.limit_targets as target
                where target.job_type in (p_job_type, '')
                  and target.queue in (p_queue, '')
            ) as target
            join treadle.limits as rule on rule.name = target.name
            cross join lateral (
                select treadle.limit_key(rule.per, each.partition) as key, count(*)::int as jobs
                from unnest(p_partitions) as each (partition)
                group by 1
            ) as arrived
            left join treadle.limit_keys as own on own.name = rule.name and own.key = arrived.key
            where rule.kind = 'pending'
              and coalesce(own.amount, rule.amount) is not null
            order by rule.when_full desc, rule.name, arrived.key
        loop
            v_now := extract(epoch from clock_timestamp());
            v_pause := case when v_bound.amount > c_counted_at_once then v_bound.amount / c_counted_per_second::double precision else 0 end;
            v_pending := null;
            v_known := null;
            if v_pause > 0 then
                select seal.secret into v_secret from treadle.seal as seal;
                v_digest := md5(concat_ws(E'\n', 'treadle.jobs'::regclass::oid, v_bound.name, v_bound.key));
                v_setting := 'treadle' || '.pending_' || left(v_digest, 2);
                v_known := string_to_array(current_setting(v_setting, true), ' ');
                if (v_known[4] = md5(v_secret || concat_ws(' ', pg_backend_pid(), v_known[1], v_known[2], v_known[3]))) is not true then
                    v_known := null;
                end if;
            end if;
            if v_known[1] = v_digest and v_now - v_known[2]::double precision between 0 and v_pause then
                v_pending := v_known[3];
            end if;

            -- If it seemed to be full a moment ago, it is not counted again for each call.
            if v_pending is null
                or v_pending + v_bound.jobs > v_bound.amount and v_now - v_known[2]::double precision > v_pause / 10
            then
                v_pending := treadle.count_pending(
                    v_bound.name, v_bound.per, v_bound.key, v_bound.amount + v_bound.jobs + c_excess
                );
                if p_added is not null then
                    v_pending := v_pending - v_bound.jobs;
                end if;
                v_now := extract(epoch from clock_timestamp());
            else
                v_now := v_known[2];
            end if;

            v_fits := v_pending + v_bound.jobs <= v_bound.amount;
            if not v_fits and v_bound.when_full = 'drop' and v_bound.jobs <= v_bound.amount then
                v_fits := treadle.drop_oldest(
                    v_bound.name, v_bound.per, v_bound.key, p_priority, v_pending + v_bound.jobs - v_bound.amount,
                    p_added
                );
                v_dropped := v_dropped or v_fits;
            end if;
            if v_pause > 0 then
                v_pending := case when v_fits then least(v_pending + v_bound.jobs, v_bound.amount) else v_pending end;
                v_sealed := concat_ws(' ', v_digest, v_now, v_pending);
                perform set_config(
                    v_setting,
                    concat_ws(' ', v_sealed, md5(v_secret || concat_ws(' ', pg_backend_pid(), v_sealed))), false
                );
            end if;

            if not v_fits then
                raise notice '% not enqueued: % allows % jobs to wait%', p_job_type, v_bound.name, v_bound.amount,
                    case when v_bound.per <> '' then format(' for %s %s', v_bound.per, v_bound.key) else '' end;
                if v_dropped then
                    raise exception using errcode = 'TRD02'; -- what was dropped for others is undone
                end if;
                return false;
            end if;
        end loop;
    exception when sqlstate 'TRD02' then
        return false;
    end;
    return true;
end
$$;
