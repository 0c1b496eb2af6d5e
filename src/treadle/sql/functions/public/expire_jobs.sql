-- Cancels jobs that no worker has claimed before they expired. Returns how many it has looked at. Workers call it every
-- 10 seconds: a claim cancels only the expired jobs that it meets.
create or replace function treadle.expire_jobs(p_limit int default 1000) returns int
language plpgsql
as $$
declare
    -- When to look again at a job that another transaction has locked.
    c_later constant interval := '5 seconds';
    v_now constant timestamptz := clock_timestamp();
    v_due uuid[];
    v_expired uuid[];
begin
    -- One worker at a time: the others find these locked.
    with due as materialized (
        select entry.look_at, entry.job_id
        from treadle.expiries as entry
        where entry.look_at <= v_now
        order by entry.look_at
        limit p_limit
        for update skip locked
    ),
    removed as (
        delete from treadle.expiries as entry
        using due
        where entry.look_at = due.look_at
          and entry.job_id = due.job_id
    )
    select array_agg(due.job_id) into v_due from due;
    if v_due is null then
        return 0;
    end if;

    v_expired := array(
        select job.id
        from treadle.jobs as job
        where job.id = any (v_due)
          and job.status = 'pending'
          and job.expires_at <= v_now
        order by job.id
        for no key update skip locked
    );
    perform treadle.cancel_expired(v_expired);

    insert into treadle.expiries (look_at, job_id)
    select distinct v_now + c_later, job.id
    from treadle.jobs as job
    where job.id = any (v_due)
      and job.status = 'pending'
      and job.expires_at <= v_now
      and not job.id = any (v_expired);

    return cardinality(v_due);
end
$$;
