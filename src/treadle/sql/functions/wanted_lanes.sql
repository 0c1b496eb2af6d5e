-- Where to look for jobs of these types: each lane once, with the time from which on a look has to begin.
--
-- A tick looked for late commits below the floor just now; if none did, or whoever asks has to be sure, the look begins
-- at settled, so that they are found within a second by whoever claims five times in it. (A tick from the future was
-- made before the clock was set back.)
--
-- Called stable so that the planner makes it a part of the statement that asks; it would not otherwise.
create or replace function treadle.wanted_lanes(
    p_job_types varchar[],
    p_queues varchar[] default null,
    p_sure boolean default false
) returns table (queue varchar, job_type varchar, priority int, start timestamptz)
language sql stable
as $$
    select
        lane.queue,
        lane.job_type,
        lane.priority,
        max(
            case
                when not p_sure and abs(clock.last_value - extract(epoch from clock_timestamp()) * 1000000) < 800000
                    then lane.floor
                else lane.settled
            end
        )
    from treadle.lanes as lane
    cross join treadle.tick_clock as clock
    where lane.job_type = any (p_job_types)
      and (p_queues is null or lane.queue = any (p_queues))
    group by lane.queue, lane.job_type, lane.priority
$$;

comment on function treadle.wanted_lanes(varchar[], varchar[], boolean)
    is 'Part of claiming: the lanes of these types, with the time from which on a look for jobs has to begin.';
