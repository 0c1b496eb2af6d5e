-- Records that a worker is alive. Its jobs are not stale while it calls this often enough.
create or replace function treadle.heartbeat(p_worker_id varchar) returns void
language plpgsql
as $$
begin
    insert into treadle.workers (worker_id)
    values (p_worker_id)
    on conflict (worker_id) do update
    set seen_at = clock_timestamp();
end
$$;
