-- Whether each statement of this transaction sees what was committed before it began.
create or replace function treadle.reads_fresh() returns boolean
language sql stable
as $$
    select current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
$$;

comment on function treadle.reads_fresh() is 'Whether the transaction is READ COMMITTED: only then can it see what others just committed.';
