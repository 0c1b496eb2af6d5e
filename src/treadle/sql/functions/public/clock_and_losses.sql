-- The clock in microseconds, its last jump that was noted, whether recover_lost_workers() would find something to do,
-- and in how many seconds the next lease runs out. For workers: one statement for all questions.
--
-- A claim of a lost worker may be committed after the worker was declared lost. While a snapshot is open, the search
-- for it reads the index entries of all jobs that the worker has ever claimed. So in the first minute each call
-- searches, later only calls at intervals of up to an eighth of the time since the loss. recover_lost_workers() always
-- searches.
create or replace function treadle.clock_and_losses(
    out clock bigint, out jumps bigint, out losses boolean, out next_loss double precision
)
language plpgsql stable
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    clock := extract(epoch from v_now) * 1000000;
    jumps := coalesce((select max(jump.id) from treadle.clock_jumps as jump), 0);

    select
        coalesce(bool_or(
            known.seen_at > v_now + interval '1 second'
            or known.remaining < interval '0'
            or known.lost_at < v_now - interval '1 day'
            or known.lost_at is not null
            and known.lost_for - known.period * floor(known.lost_for / known.period) < known.seconds
            and exists (
                select
                from treadle.jobs as job
                where job.worker_id = known.worker_id
                  and job.status in ('claimed', 'running')
            )
        ), false),
        extract(epoch from min(known.remaining) filter (where known.remaining >= interval '0'))
    into losses, next_loss
    from (
        select
            worker.worker_id, worker.seen_at, worker.lost_at, lost.lost_for,
            power(2, floor(log(greatest(lost.lost_for, 8) / 8) / log(2.0))) as period,
            -- Each worker asks more than once in its lease.
            greatest(10, extract(epoch from worker.lease)) as seconds,
            case when worker.lost_at is null then worker.seen_at - treadle.clock_before(worker.lease, v_now) end as remaining
        from treadle.workers as worker
        cross join lateral (select extract(epoch from v_now - worker.lost_at)::float8 as lost_for) as lost
        offset 0
    ) as known;
end
$$;
