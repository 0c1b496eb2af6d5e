-- Makes sure that a search of the active lanes of these job types finds every job. Called before a search, if the last
-- tick is not recent. Active lanes and floors are right if a tick has just looked for jobs that were committed late. So
-- the search makes the tick itself, if it can: a program that only claims needs no other process that ticks. Otherwise,
-- and if p_sure, the search must start at floors that are safe, and lanes that have become dormant meanwhile are active
-- again.
--
-- Returns p_safe for safe_floor(); null if every floor can be trusted.
create or replace function treadle.prepare_lanes(p_job_types varchar[], p_sure boolean default false)
returns treadle.ticks
language plpgsql
as $$
declare
    c_wait constant interval := '2 seconds'; -- as in public/tick.sql
    v_safe treadle.ticks;
begin
    if not p_sure then
        perform treadle.tick();
        -- Of others, what is committed counts (note_tick). If this made none, another session is just making one.
        if coalesce(pg_sequence_last_value('treadle.tick_clock'::regclass), 0)
                between extract(epoch from clock_timestamp() - c_wait) * 1000000
                and extract(epoch from clock_timestamp()) * 1000000
            or exists (
                select
                from treadle.ticks as tick
                where tick.xid = pg_current_xact_id_if_assigned()
                  and tick.ticked_at between clock_timestamp() - c_wait and clock_timestamp()
            )
        then
            return null;
        end if;
    end if;

    v_safe := treadle.safe_tick(pg_current_snapshot());

    insert into treadle.lanes (queue, job_type, priority, partition)
    select distinct dormant.queue, dormant.job_type, dormant.priority, dormant.partition
    from treadle.lanes as dormant
    where dormant.job_type = any (p_job_types)
      and not treadle.is_listed(dormant.dormant_xid, dormant.limit_name)
      and (
            dormant.dormant_xid >= v_safe.next_xid
            or dormant.dormant_xid = any (v_safe.running)
            or dormant.wakes_at <= clock_timestamp()
          )
      and not exists (
            select
            from treadle.lanes as active
            where treadle.is_in_lane(
                    active.queue, active.job_type, active.priority, active.partition,
                    row(dormant.queue, dormant.job_type, dormant.priority, dormant.partition)::treadle.lane
                  )
              and treadle.is_listed(active.dormant_xid, active.limit_name)
      );

    return v_safe;
end
$$;
