-- Workers are notified of new jobs by a decision at commit, and one of them instead of all. See decision 9.

-- A row here makes its transaction run notify_at_commit(): a deferred trigger is the only code that runs at commit, and it
-- needs a row. The transaction deletes the row again, and nobody reads it. Not logged: nothing of it has to survive a crash.
create unlogged table treadle.wake_requests (
);

comment on table treadle.wake_requests is 'Transactions that decide at commit whether to notify workers. Always empty.';

-- Whoever may set wake_clock may wake workers, and needs these rights now.
do $$
declare
    v_grantee oid;
begin
    for v_grantee in
        select granted.grantee
        from pg_catalog.pg_class as class
        cross join lateral pg_catalog.aclexplode(class.relacl) as granted
        where class.oid = 'treadle.wake_clock'::pg_catalog.regclass
          and granted.privilege_type = 'UPDATE'
          and granted.grantee <> class.relowner
    loop
        execute pg_catalog.format(
            'grant select, insert, delete on treadle.wake_requests to %s',
            case v_grantee when 0 then 'public' else v_grantee::pg_catalog.regrole::text end
        );
    end loop;
end
$$;

comment on sequence treadle.wake_clock is 'When workers were last notified, in microseconds since 1970; 0 or 1: a worker has gone idle since, and is to be notified of the next job.';

-- It comes back with one more argument.
drop function if exists treadle.next_due(varchar[], varchar[], boolean);
