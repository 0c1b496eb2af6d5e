-- After a job that was claimed under a limit has ended, was given back or deleted: wakes a worker, if lanes are parked for the limit.
-- (A claim that is just parking one may not be visible yet: see opened_limits.sql.)
create or replace function treadle.note_openings(p_queue varchar, p_job_type varchar, p_partition varchar) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    insert into treadle.limit_openings (opens_at, name, key)
    select v_now, rule.name, rule.key
    from treadle.limits_of(p_queue, p_job_type, p_partition) as rule
    where rule.period is null
      and exists (
            select
            from treadle.lanes as lane
            where lane.parked_name = rule.name
              and lane.parked_key = rule.key
      );
    if found then
        perform treadle.wake_workers(v_now);
    end if;
end
$$;

comment on function treadle.note_openings(varchar, varchar, varchar)
    is 'Notes that the limits of a job that has ended may have room.';
