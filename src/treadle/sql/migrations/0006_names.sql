-- Names: a type for the identity of a lane, conventional names for a sequence and an index, and comments in plain words.
-- Functions that were renamed and that version 0.1 calls stay until version 0.3: see ../functions/deprecated.

create type treadle.lane as (
    queue    varchar,
    job_type varchar,
    priority int
);

comment on type treadle.lane is 'What identifies a lane: its jobs are claimed in the order of their run_at.';

-- When idle workers were last notified, in microseconds since 1970; 0: a worker has gone idle since. A sequence, because it
-- is read and set at once, whatever becomes of the transaction.
create sequence treadle.wake_clock minvalue 0 start 0 no cycle;

-- It replaces the sequence bell, and gets the same grants. The old one is not dropped yet: a call that began before this
-- migration may still read it. Version 0.3 drops it.
do $$
declare
    v_grant record;
begin
    for v_grant in
        select granted.grantee, granted.privilege_type
        from pg_catalog.pg_class as class
        cross join lateral pg_catalog.aclexplode(class.relacl) as granted
        where class.oid = 'treadle.bell'::pg_catalog.regclass
          and granted.grantee <> class.relowner
    loop
        execute pg_catalog.format(
            'grant %s on sequence treadle.wake_clock to %s',
            v_grant.privilege_type,
            case v_grant.grantee when 0 then 'public' else v_grant.grantee::pg_catalog.regrole::text end
        );
    end loop;
end
$$;

comment on sequence treadle.bell is 'Not used since version 0.2 (see wake_clock); dropped in 0.3.';

alter index treadle.idx_jobs_held rename to idx_jobs_blocked;

comment on table treadle.jobs is 'One row per job, from enqueue until it is pruned.';
comment on column treadle.jobs.run_at is 'The job is not claimed before this time; also its place in its lane. If an insert leaves it out, it follows created_at.';
comment on column treadle.jobs.lease is 'The lease number: each claim increments it, and nothing else does. It fences the writes of a worker.';
comment on column treadle.jobs.holds is 'What a pending job is blocked by, as bits: 1 = an earlier job with the same key. Only jobs with 0 can be claimed.';
comment on column treadle.jobs.crashes is 'How often the job was recovered from a worker that had died.';
comment on column treadle.jobs.seen_at is 'The last report of the worker about this job, if there was one.';
comment on column treadle.jobs.finished_at is 'When the job became completed, failed or cancelled.';
comment on column treadle.jobs.unique_key is 'While this job is unfinished, no other job of its type with the same unique key is added.';
comment on column treadle.jobs.pace is 'What the handler counts: done, total, rate per second and seconds left.';
comment on column treadle.jobs.checkpoint is 'What the handler saved last; the next attempt finds it.';
comment on column treadle.jobs.keeps is 'What else is stored for this job, as bits: 1 = events, 2 = log lines, 4 = steps. It is deleted with the job.';
comment on table treadle.lanes is 'The lanes (queue, job type, priority) that have or had jobs, with the bounds at which claims start.';
comment on column treadle.lanes.floor is 'Claims start here while the last tick is recent. A hint: a job that was committed late may lie below.';
comment on column treadle.lanes.settled is 'Nothing claimable lies below this, now or later. Claims start here if the last tick is not recent.';
comment on column treadle.lanes.mark is 'Becomes settled once every transaction that could not see it has ended.';
comment on column treadle.lanes.mark_era is 'The era of treadle.horizon in which mark was written.';
comment on column treadle.lanes.close_era is 'The era in which an unused lane was marked for deletion; it is deleted two eras later unless a job was added.';
comment on table treadle.horizon is 'One row: up to which transaction id all transactions that could still commit an older job have ended.';
comment on column treadle.horizon.look_after is 'When a tick may next read the claimed jobs.';
comment on table treadle.workers is 'One row per worker. Heartbeats update it, so none is written per job.';
comment on column treadle.workers.lease is 'How long the worker may go without renewing before other workers get its jobs; null for heartbeats by hand.';
comment on column treadle.workers.lost_at is 'When the worker was declared lost. Its row is kept for a day, so that a claim of it that arrives late is found.';
comment on column treadle.workers.version is 'The version of Treadle that the worker runs.';
comment on column treadle.workers.process_types is 'Those of its job types that run in child processes and do not count towards concurrency.';
comment on column treadle.workers.children is 'How many jobs run in child processes at once; concurrency is for the other jobs.';
comment on table treadle.errors is 'The failed attempts of jobs: when, on which worker, and why. Deleted with their job.';
comment on table treadle.events is 'The events that handlers published with job.event(), numbered per job. Deleted with their job.';
comment on column treadle.events.sequence is 'The number of the event within its lease number: an event that is written twice is found by it. Null for record_event().';
comment on column treadle.events.phase is 'The place of the event among the transitions of its lease number: see job_events().';
comment on column treadle.events.transaction is 'The transaction that wrote it. A reader of all events stops at the oldest transaction that still runs, and so skips none.';
comment on table treadle.logs is 'What handlers logged: the first and the last lines of each job. Deleted with their job.';
comment on table treadle.steps is 'Finished steps of jobs, with their results: they are not repeated. Deleted with their job.';
comment on table treadle.stored is 'One row per stored object: what Stored in a payload or a result refers to.';
comment on column treadle.stored.size is 'In bytes; null until all of them are written, and until then nothing can refer to the object.';
comment on column treadle.stored.digest is 'SHA-256, in hexadecimal.';
comment on column treadle.stored.place is 'The folder or object store (a URL) of its file; null: its bytes are in stored_parts.';
comment on column treadle.stored.written_at is 'When the object was last written to. It is not swept for some time after that.';
comment on column treadle.stored.removing_at is 'Set when the object is being removed and cannot be used any more: when the removal of its file last began.';
comment on table treadle.stored_parts is 'The bytes of stored objects: 256 kB per part, numbered from 0, the last one shorter.';
comment on table treadle.stored_uses is 'Which jobs use which stored objects. A use is deleted with its job; an object without one is swept.';
comment on table treadle.pauses is 'What is not claimed for now: a job type, a queue, a job type in a queue, or (both empty) everything.';
comment on table treadle.audit is 'What operators changed, one row per job, written in the transaction of the change.';
comment on column treadle.audit.actor is 'Who made the change, according to the program that made it.';
comment on column treadle.audit.db_user is 'The database user of that program.';
comment on column treadle.audit.details is 'The state before the change, and the arguments of the change.';
comment on table treadle.minutes is 'What finished in each minute, for charts. Workers count it a few seconds later; it is kept for a week.';
comment on column treadle.minutes.errors is 'Failed attempts, including those that were retried.';
comment on column treadle.minutes.waited is 'How long the completed jobs waited after they were due, in seconds, summed.';
comment on column treadle.minutes.ran is 'How long the completed jobs ran, in seconds, summed.';
comment on table treadle.meter is 'One row: up to when finished jobs are counted in minutes.';
