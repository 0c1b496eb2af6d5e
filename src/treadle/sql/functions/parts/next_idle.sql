create or replace function treadle.next_idle(p_job_types varchar[], p_queues varchar[]) returns timestamptz
language plpgsql stable
as $$
begin
    return (
        select min(idle.next_run_at)
        from unnest(p_job_types) as wanted (job_type)
        cross join lateral (
            select lane.next_run_at
            from treadle.lanes as lane
            where lane.job_type = wanted.job_type
              and lane.next_run_at > clock_timestamp()
              and (p_queues is null or lane.queue = any (p_queues))
            order by lane.next_run_at
            limit 1
        ) as idle
    );
end
$$;

comment on function treadle.next_idle(varchar[], varchar[]) is 'When the first job of an idle lane of these job types is due.';
