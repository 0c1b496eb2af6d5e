-- Whether the transaction is READ COMMITTED: only then does each of its statements see what other transactions have
-- just committed.
create or replace function treadle.is_read_committed() returns boolean
language sql stable
return current_setting('transaction_isolation') in ('read committed', 'read uncommitted');
