-- Jumps of the server's clock: what is remembered of them. See decision 27.

-- One row per jump that was noticed; the newest hundred are kept.
create table treadle.clock_jumps (
    id     bigint generated always as identity primary key,
    before timestamptz not null,
    after  timestamptz not null
);

comment on table treadle.clock_jumps is 'Jumps of the server''s clock, as they were noticed.';
comment on column treadle.clock_jumps.before is 'What the clock would have shown without the jump; for a jump back that a tick noticed, what the last tick before it had read.';
comment on column treadle.clock_jumps.after is 'What the clock showed when the jump was noticed.';

-- The last jump back, copied from tick to tick. Null in a server whose clock was never set back.
alter table treadle.ticks
    add column set_back_from timestamptz,
    add column set_back_seen xid8,
    add column set_back_until xid8;

comment on column treadle.ticks.set_back_from is 'The clock before it was last set back: jobs up to this time were due then.';
comment on column treadle.ticks.set_back_seen is 'The last tick before that.';
comment on column treadle.ticks.set_back_until is 'Transactions with a lower id may have enqueued jobs by the clock before that.';

-- It gets another parameter.
drop function if exists treadle.recover_lost_workers(int, timestamptz);

-- Who could maintain the ticks so far still can; who could read them, too.
do $$
declare
    v_grant record;
begin
    for v_grant in
        select granted.grantee, granted.privilege_type
        from pg_catalog.pg_class as class
        cross join lateral pg_catalog.aclexplode(class.relacl) as granted
        where class.oid = 'treadle.ticks'::pg_catalog.regclass
          and granted.grantee <> class.relowner
    loop
        execute pg_catalog.format(
            'grant %s on treadle.clock_jumps to %s',
            v_grant.privilege_type,
            case v_grant.grantee when 0 then 'public' else v_grant.grantee::pg_catalog.regrole::text end
        );
    end loop;
end
$$;
