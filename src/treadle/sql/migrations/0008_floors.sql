-- Lanes, floors and ticks: what a lane is, where claims start in it, and which transactions a tick has seen. See decision 24.
-- The bounds that lanes had so far are not used any more; the columns stay until version 0.3, because a call that began
-- before this migration may still read them. A lane without a floor is searched from its first job on.

-- One row per tick, deleted when no running transaction is older. The newest is read first, so rows that an open snapshot
-- keeps from being removed are not in the way.
create table treadle.ticks (
    xid         xid8 primary key,
    ticked_at   timestamptz not null,
    next_xid    xid8 not null,
    running     xid8[] not null,
    look_after  timestamptz not null,
    sweep_after timestamptz not null,
    swept       treadle.lane
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_cost_delay = 0
);

comment on table treadle.ticks is 'The last ticks: the transactions that ran at each of them may still commit jobs below a floor.';
comment on column treadle.ticks.xid is 'The transaction id of the tick.';
comment on column treadle.ticks.next_xid is 'Transactions with this id or a higher one may have started after the tick.';
comment on column treadle.ticks.running is 'The older transactions that were running.';
comment on column treadle.ticks.look_after is 'When a tick may next read the claimed jobs.';
comment on column treadle.ticks.sweep_after is 'When a tick may next compare the first job of a lane with its floor.';
comment on column treadle.ticks.swept is 'The lane for which that was done last.';

-- The floors of the lanes, the newest and as many older ones as running transactions may have seen. Rows are only added and
-- deleted. The newest one is read first, for the same reason.
create table treadle.floors (
    queue    varchar(50) not null,
    job_type varchar(50) not null,
    priority int not null,
    floor    timestamptz not null,
    xid      xid8 not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50,
    autovacuum_vacuum_cost_delay = 0
);

create index idx_floors_lane on treadle.floors (job_type, queue, priority, xid desc);

comment on table treadle.floors is 'Where claims start in each lane: the newest floor is the valid one.';
comment on column treadle.floors.floor is 'No claimable job has an earlier run_at, except of transactions that were running when the floor was written.';
comment on column treadle.floors.xid is 'The transaction id of the tick that wrote it.';

alter table treadle.lanes
    add column idle_xid xid8,
    add column next_run_at timestamptz;

comment on table treadle.lanes is 'The lanes (queue, job type, priority) that have or had jobs. A lane is listed more than once until the next tick.';
comment on column treadle.lanes.idle_xid is 'The tick that made the lane idle; null: the lane is active. Claims search active lanes only.';
comment on column treadle.lanes.next_run_at is 'When the first job of an idle lane is due; the lane becomes active before that.';

-- Active lanes in the order in which claims need them: for workers of all queues, and for workers of some. (An expression,
-- because the planner would use the primary key for a range of ids, and read the lanes of all job types.)
create index idx_lanes_active on treadle.lanes (job_type, priority desc, (id + 0)) where idle_xid is null;
create index idx_lanes_active_queue on treadle.lanes (job_type, queue, priority desc, (id + 0)) where idle_xid is null;
create index idx_lanes_idle on treadle.lanes (idle_xid) where idle_xid is not null;
create index idx_lanes_unused on treadle.lanes (idle_xid) where idle_xid is not null and next_run_at is null;
create index idx_lanes_due on treadle.lanes (next_run_at) where next_run_at is not null;
create index idx_lanes_due_type on treadle.lanes (job_type, next_run_at) where next_run_at is not null;

-- Who could maintain the lanes so far still can; who could read them, too.
do $$
declare
    v_grant record;
begin
    for v_grant in
        select granted.grantee, granted.privilege_type
        from pg_catalog.pg_class as class
        cross join lateral pg_catalog.aclexplode(class.relacl) as granted
        where class.oid = 'treadle.lanes'::pg_catalog.regclass
          and granted.grantee <> class.relowner
    loop
        execute pg_catalog.format(
            'grant %s on treadle.ticks, treadle.floors to %s',
            v_grant.privilege_type,
            case v_grant.grantee when 0 then 'public' else v_grant.grantee::pg_catalog.regrole::text end
        );
    end loop;
end
$$;

comment on column treadle.lanes.floor is 'Not used since version 0.2 (see floors); dropped in 0.3.';
comment on column treadle.lanes.settled is 'Not used since version 0.2; dropped in 0.3.';
comment on column treadle.lanes.mark is 'Not used since version 0.2; dropped in 0.3.';
comment on column treadle.lanes.mark_era is 'Not used since version 0.2; dropped in 0.3.';
comment on column treadle.lanes.close_era is 'Not used since version 0.2 (see idle_xid); dropped in 0.3.';
comment on table treadle.horizon is 'Not used since version 0.2 (see ticks); dropped in 0.3.';
