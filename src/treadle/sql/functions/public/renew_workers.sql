-- Renews the leases of all workers that one process supervises, in one statement.
create or replace function treadle.renew_workers(p_worker_ids varchar[], p_lease interval) returns void
language plpgsql
as $$
begin
    -- A worker that was declared lost but is alive may continue: its writes are fenced by lease numbers, not by this row.
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

comment on function treadle.renew_workers(varchar[], interval) is 'Renews the leases of workers; call it again before p_lease has passed.';
