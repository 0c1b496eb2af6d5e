-- Locks a job with this key that is unfinished and not blocked, without waiting. Returns whether there is one. A
-- part of confirm_blocked(): the transaction that finishes the locked job waits for this one.
create or replace function treadle.lock_unblocked(p_key varchar) returns boolean
language plpgsql
as $$
begin
    perform
    from treadle.jobs as other
    where other.key = p_key
      and other.status in ('pending', 'claimed', 'running')
      and treadle.key_rank(other.status, other.holds) < 2
    limit 1
    for share skip locked;
    return found;
end
$$;
