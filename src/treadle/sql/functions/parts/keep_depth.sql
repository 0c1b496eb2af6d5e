-- Writes how many jobs a segment of a lane, or of a finished status, has. A part of count_segments(). What has not
-- changed is written only every 10 seconds, unless p_always: while a snapshot is open, PostgreSQL cannot remove the
-- former versions of the row.
create or replace function treadle.keep_depth(
    p_status varchar,
    p_lane treadle.lane,
    p_starts_at timestamptz,
    p_jobs bigint,
    p_counted_at timestamptz,
    p_always boolean
) returns void
language plpgsql
as $$
begin
    insert into treadle.depths as kept (status, queue, job_type, priority, partition, starts_at, jobs, counted_at)
    values (
        p_status, p_lane.queue, p_lane.job_type, p_lane.priority, p_lane.partition, p_starts_at, p_jobs, p_counted_at
    )
    on conflict (status, queue, job_type, priority, partition, starts_at) do update
    set jobs = excluded.jobs,
        counted_at = excluded.counted_at
    where p_always
       or kept.jobs is distinct from excluded.jobs
       or kept.counted_at not between excluded.counted_at - interval '10 seconds' and excluded.counted_at;
end
$$;
