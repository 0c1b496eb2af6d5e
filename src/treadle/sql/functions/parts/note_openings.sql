-- After jobs of these lanes that were claimed under a limit have ended, were given back or deleted: wakes a worker, if
-- lanes are waiting for the limit. (What a claim is just writing may not be visible yet: see wait_for_limits.sql.)
create or replace function treadle.note_openings(p_lanes treadle.lane[]) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    if not exists (select from treadle.lanes as lane where lane.limit_name is not null) then
        return;
    end if;

    insert into treadle.limit_openings (opens_at, name, key)
    select distinct v_now, rule.name, rule.key
    from (
        select distinct ended.queue, ended.job_type, ended.partition
        from unnest(p_lanes) as ended
    ) as ended
    cross join lateral treadle.limits_of(ended.queue, ended.job_type, ended.partition) as rule
    where rule.kind = 'concurrency'
      and exists (
            select
            from treadle.lanes as lane
            where lane.limit_name = rule.name
              and lane.limit_key = rule.key
      );
    if found then
        perform treadle.wake_workers(v_now);
    end if;
end
$$;
