-- The write of a claim, for rows that it has locked. Nothing else changes the lease number. Jobs that have expired are
-- cancelled instead. From its claim on, a job no longer expires, and a unique key that it has while it is pending is
-- free for the next job.
create or replace function treadle.mark_claimed(
    p_worker_id varchar,
    p_now timestamptz,
    p_places tid[],
    p_keyed boolean,
    p_flags smallint default 0 -- flag_limited() and flag_opening() for jobs that are claimed under a limit
) returns setof treadle.jobs
language plpgsql
set treadle.plan = callers
as $$
declare
    c_short constant text := '3ms';
    v_era constant bigint := treadle.lease_era();
    v_half constant int := cardinality(p_places) / 2;
    v_found int;
    v_timeout text;
begin
    if p_places is null then
        return;
    end if;

    if not p_keyed then
        return query
        with claimed as (
            update treadle.jobs as job
            set status = 'claimed',
                worker_id = p_worker_id,
                claimed_at = p_now,
                started_at = null,
                seen_at = null,
                attempts = job.attempts + 1,
                lease = greatest(job.lease, v_era) + 1,
                unique_key = case when job.unique_while is null then job.unique_key end,
                expires_at = null,
                flags = job.flags | p_flags
            where job.ctid = any (p_places)
              and (job.expires_at <= p_now) is not true
            returning job.*
        )
        select * from claimed order by claimed.run_at, claimed.id;
        get diagnostics v_found = row_count;

        if v_found < cardinality(p_places) then
            perform treadle.cancel_expired(array(
                select job.id
                from treadle.jobs as job
                where job.ctid = any (p_places)
                  and job.status = 'pending'
                  and job.expires_at <= p_now
            ));
        end if;
        return;
    end if;

    -- Another claim may be taking a job with one of these keys: do not wait long for it. Then try each half, and skip that job. (One by
    -- one, a transaction that stays open made each claim of 200 jobs six times as slow.)
    v_timeout := current_setting('lock_timeout');
    perform set_config('lock_timeout', case v_timeout when c_short then c_short else '50ms' end, true);
    begin
        return query select * from treadle.mark_claimed(p_worker_id, p_now, p_places, false, p_flags);
    exception when unique_violation or lock_not_available or deadlock_detected then
        if cardinality(p_places) > 1 then
            perform set_config('lock_timeout', c_short, true);
            return query
            select job.*
            from (values (p_places[: v_half]), (p_places[v_half + 1 :])) as half (places)
            cross join lateral treadle.mark_claimed(p_worker_id, p_now, half.places, true, p_flags) as job;
        end if;
    end;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
