-- The lanes of the jobs that a limit is for, or of one value of its "per". Those of a value are looked up where all
-- partitions of a job type have the same single part; else all lanes of the type are compared.
create or replace function treadle.limit_lanes(p_name varchar, p_per varchar, p_key varchar) returns setof treadle.lane
language plpgsql stable
set treadle.plan = index_ranges
as $$
declare
    v_partition constant varchar collate "C" := case when p_key <> '' then jsonb_build_object(p_per, p_key)::text else '' end;
    v_single boolean;
    v_level record;
begin
    for v_level in
        -- Each combination of type, queue and priority is one step in idx_lanes_type.
        with recursive level as (
            select target.job_type as for_type, target.queue as for_queue, ''::varchar as job_type, ''::varchar as queue, null::int as priority
            from treadle.limit_targets as target
            where target.name = p_name
            union all
            select level.for_type, level.for_queue, following.job_type, following.queue, following.priority
            from level
            cross join lateral (
                select lane.job_type, lane.queue, lane.priority
                from treadle.lanes as lane
                where (lane.job_type, lane.queue, lane.priority)
                    > (greatest(level.job_type, level.for_type), level.queue, coalesce(level.priority, -2147483648))
                  and (level.for_type = '' or lane.job_type = level.for_type)
                order by lane.job_type, lane.queue, lane.priority
                limit 1
            ) as following
        )
        select distinct level.job_type, level.queue, level.priority
        from level
        where level.priority is not null
          and level.for_queue in (level.queue, '')
    loop
        v_single := p_per <> ''
            and length(p_key) between 1 and 199 -- a longer value is cut
            and treadle.partition_parts(v_level.job_type, v_level.queue) = array[p_per];
        return query
        select distinct lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.job_type = v_level.job_type
          and lane.queue = v_level.queue
          and lane.priority = v_level.priority
          -- Partitions are empty or begin with a brace.
          and lane.partition >= case when v_single then v_partition else '' end
          and lane.partition <= case when v_single then v_partition else '}' end
          and (p_per = '' or v_single or treadle.limit_key(p_per, lane.partition) = p_key);
    end loop;
end
$$;
