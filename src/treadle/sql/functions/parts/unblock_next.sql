-- A job with this key has ended: unblocks the oldest blocked job of the key. While a key has blocked jobs, it has at
-- least one unfinished job that is not blocked. Each of those unblocks one other when it finishes, so two that finish
-- at the same time unblock two. More than one unblocked job does no harm: claims take only the head.
create or replace function treadle.unblock_next(p_id uuid, p_key varchar) returns void
language plpgsql
as $$
declare
    v_next uuid;
begin
    if not treadle.is_read_committed() then
        raise exception 'job % has a key, and this transaction is %', p_id, current_setting('transaction_isolation')
            using errcode = 'feature_not_supported',
                  hint = 'Finish jobs that have a key in a READ COMMITTED transaction: '
                      'an older snapshot cannot see which jobs wait behind them.';
    end if;

    loop
        select job.id
        into v_next
        from treadle.jobs as job
        where job.key = p_key
          and job.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(job.status, job.holds) = 2
        order by job.id
        limit 1;
        exit when not found;

        -- Waits if the row is being unblocked, cancelled, or locked by a commit in confirm_blocked(); then searches
        -- again.
        update treadle.jobs as job
        set holds = job.holds & ~treadle.blocked_by_key()
        where job.id = v_next
          and job.status = 'pending'
          and treadle.is_blocked_by_key(job.holds);
        exit when found;
    end loop;
end
$$;
