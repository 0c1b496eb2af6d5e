-- Of these lanes, those of the priority whose first job has waited longest, if that was due before p_before: see
-- Treadle(aging=…).
create or replace function treadle.aged_lanes(p_before timestamptz, p_lanes treadle.lane_range[]) returns treadle.lane_range[]
language plpgsql stable
set treadle.plan = index_ranges
as $$
begin
    return (
        with head as materialized (
            select range.lane, range.start, head.run_at
            from unnest(p_lanes) as range
            cross join lateral (
                select job.run_at
                from treadle.lane_jobs(range.lane, range.start) as job
                order by job.run_at
                limit 1
            ) as head
            where head.run_at < p_before
        )
        select array_agg(row(head.lane, head.start)::treadle.lane_range)
        from head
        where (head.lane).priority = (select (oldest.lane).priority from head as oldest order by oldest.run_at limit 1)
    );
end
$$;

comment on function treadle.aged_lanes(timestamptz, treadle.lane_range[])
    is 'Of these lanes, those of the priority whose first job has waited longest, if that was due before p_before.';
