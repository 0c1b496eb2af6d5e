-- Whether a job is the next to run of those with its key: no job with the key runs, and none that waits for its turn
-- is older. Blocked jobs do not count: they are younger, or were enqueued in a transaction that overlapped with this
-- one (see decision 6).
create or replace function treadle.is_head_of_key(p_key varchar, p_id uuid) returns boolean
language plpgsql stable
as $$
begin
    return not exists (
        select
        from treadle.jobs as other
        where other.key = p_key
          and other.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(other.status, other.holds) = 0
    )
    and not exists (
        select
        from treadle.jobs as other
        where other.key = p_key
          and other.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(other.status, other.holds) = 1
          and other.id < p_id
    );
end
$$;
