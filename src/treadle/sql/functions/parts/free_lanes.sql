-- Of several lanes, those whose limits no other claim seems to have locked. Then a claim reads only jobs that it may take: with eight
-- claims at a time, each would otherwise read the same ones. It locks nothing: that is for the jobs that are taken.
create or replace function treadle.free_lanes(
    p_lockers xid[], p_queues varchar[], p_job_types varchar[], p_partitions varchar[]
) returns int[]
language plpgsql
as $$
begin
    return array(
        select lane.nth
        from unnest(p_queues, p_job_types, p_partitions) with ordinality as lane (queue, job_type, partition, nth)
        where not exists (
            select
            from treadle.limits_of(lane.queue, lane.job_type, lane.partition) as rule
            cross join lateral (
                select
                from treadle.limit_keys as known
                where known.name = rule.name
                  and known.key = rule.key
                  and known.xmax = any (p_lockers)
                limit 1
            ) as locked
        )
        order by lane.nth
    );
end
$$;

comment on function treadle.free_lanes(xid[], varchar[], varchar[], varchar[])
    is 'Those of these lanes whose limits no other claim seems to have locked.';
