-- Whether it is this job's turn among the jobs of its key: none runs, and none that waits for its turn is older.
-- (Held ones are younger, or were enqueued in a transaction that overlapped: see decision 6.)
create or replace function treadle.is_head(p_key varchar, p_id uuid) returns boolean
language plpgsql stable
set enable_seqscan = off
as $$
begin
    return not exists (
        select
        from treadle.jobs as other
        where other.key = p_key
          and other.status in ('pending', 'claimed', 'running')
          and case other.status when 'pending' then 1 + (other.holds & 1) else 0 end = 0
    )
    and not exists (
        select
        from treadle.jobs as other
        where other.key = p_key
          and other.status in ('pending', 'claimed', 'running')
          and case other.status when 'pending' then 1 + (other.holds & 1) else 0 end = 1
          and other.id < p_id
    );
end
$$;

comment on function treadle.is_head(varchar, uuid) is 'Whether a job is the next of its key.';
