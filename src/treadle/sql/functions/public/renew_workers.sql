-- Renews the leases of workers; call it again before p_lease has passed. p_asleep: they have a long lease and no jobs,
-- and renew it with p_asleep false, and an ordinary lease, before they claim (decision 53).
create or replace function treadle.renew_workers(
    p_worker_ids varchar[],
    p_lease interval,
    p_asleep boolean default false
) returns void
language plpgsql
as $$
declare
    v_seen timestamptz;
begin
    -- The clock was set back. It may be set forward again before anybody else notices; then these workers seem to have
    -- missed their leases.
    select max(worker.seen_at)
    into v_seen
    from treadle.workers as worker
    where worker.worker_id = any (p_worker_ids);
    if v_seen > clock_timestamp() + interval '1 second' then
        perform treadle.note_clock_jump(v_seen, clock_timestamp());
    end if;

    -- A worker that was declared lost but is alive may continue: its writes are fenced by lease numbers, not by this
    -- row.
    insert into treadle.workers (worker_id, lease, asleep_at)
    select worker_id, p_lease, case when p_asleep then clock_timestamp() end
    from unnest(p_worker_ids) as worker_id
    order by worker_id
    on conflict (worker_id) do update
    set seen_at = clock_timestamp(),
        lost_at = null,
        lost_because = null,
        jobs_given_back = null,
        jobs_failed = null,
        lease = p_lease,
        asleep_at = excluded.asleep_at;
end
$$;
