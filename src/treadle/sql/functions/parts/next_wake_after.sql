-- When a dormant lane of these job types wakes, not before p_from. Few are read: if none of those is of these job types,
-- it is the time of the last one, and the worker asks again then.
create or replace function treadle.next_wake_after(p_job_types varchar[], p_queues varchar[], p_from timestamptz)
returns timestamptz
language plpgsql stable
as $$
declare
    c_read constant int := 20;
begin
    return (
        select coalesce(
            min(next.wakes_at) filter (
                where next.job_type = any (p_job_types)
                  and (p_queues is null or next.queue = any (p_queues))
                  and not exists (select from treadle.pauses_of(next.job_type, next.queue))
            ),
            case when count(*) = c_read then max(next.wakes_at) end
        )
        from (
            select lane.wakes_at, lane.job_type, lane.queue
            from treadle.lanes as lane
            where lane.dormant_xid is not null
              and lane.limit_name is null
              and lane.wakes_at >= p_from
            order by lane.wakes_at
            limit c_read
        ) as next
    );
end
$$;
