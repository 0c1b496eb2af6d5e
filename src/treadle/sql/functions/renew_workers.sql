-- The heartbeat of all workers that one process looks after, in one statement.
create or replace function treadle.renew_workers(p_worker_ids varchar[], p_lease interval) returns void
language plpgsql
as $$
begin
    -- One that was given up and is alive after all goes on: what it held is fenced by leases, not by this row.
    insert into treadle.workers (worker_id, lease)
    select worker_id, p_lease
    from unnest(p_worker_ids) as worker_id
    order by worker_id
    on conflict (worker_id) do update
    set seen_at = clock_timestamp(),
        lost_at = null,
        lease = p_lease;
end
$$;

comment on function treadle.renew_workers(varchar[], interval) is 'These workers are alive; asked for again before p_lease has passed.';
