-- Who may do what: four groups without login. `treadle roles` prints this with your names for the schema and for the
-- groups, and `treadle roles --apply` runs it. A user gets what a group may by being its member:
--
--   grant treadle_worker to app_user;
--
-- It may be run again at any time, and has to be after each `treadle migrate`: what is new in the schema is nobody's
-- until then. It asks for the owner of the schema's tables, and for CREATEROLE where the groups are missing.
-- Functions run with the rights of who calls them; those few that run as their owner are marked (owner).

-- The groups.
do $$
declare
    v_group name;
begin
    foreach v_group in array array['treadle_enqueue', 'treadle_worker', 'treadle_viewer', 'treadle_operator'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = v_group) then
            begin
                execute pg_catalog.format('create role %I nologin', v_group);
            exception when duplicate_object or unique_violation then
                null; -- somebody else just did, for another database of this server
            end;
        end if;
    end loop;
end
$$;

-- Nothing, to begin with: what an earlier version granted and this one does not is taken back. Nothing for PUBLIC.
revoke all on schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
revoke all on all tables in schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
revoke all on all sequences in schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
revoke all on all functions in schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;

-- Everybody: names in the schema can be used (nothing can be created in it), and programs can see whether they fit it.
grant usage on schema treadle
    to treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
grant select on treadle.migrations, treadle.functions
    to treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;


-- treadle_enqueue: adds jobs, by function or by INSERT, and learns their ids. It reads nothing else of any job, and
-- changes none. Not for it: app.store, and jobs that use what is stored.
grant
    insert (id, job_type, priority, data, created_at, max_attempts, queue, run_at, key, unique_key),
    select (id)
    on treadle.jobs
    to treadle_enqueue;
grant execute on function
    treadle.enqueue,
    treadle.enqueue_jobs,
    treadle.enqueue_unique, -- (owner)
    treadle.new_id
    to treadle_enqueue;


-- treadle_worker: what a worker and JobQueue do. It reads and writes jobs and all that belongs to them, and only adds to
-- what is told of them.
grant select, insert, update, delete on
    treadle.jobs,
    treadle.lanes,
    treadle.workers,
    treadle.stored,
    treadle.stored_parts,
    treadle.stored_uses
    to treadle_worker;
grant select, insert, delete on
    treadle.errors,
    treadle.events,
    treadle.logs,
    treadle.steps
    to treadle_worker;
grant select, insert, update, delete on
    treadle.minutes
    to treadle_worker;
grant select, update on
    treadle.horizon,
    treadle.meter
    to treadle_worker;
grant select on
    treadle.pauses,
    treadle.audit
    to treadle_worker;
grant select, update on sequence
    treadle.tick_clock,
    treadle.bell,
    treadle.awaited,
    treadle.watched
    to treadle_worker;
grant execute on function
    -- enqueueing
    treadle.enqueue,
    treadle.enqueue_jobs,
    treadle.enqueue_unique, -- (owner)
    treadle.new_id,
    treadle.use_stored,
    -- claiming
    treadle.claim_job_batch,
    treadle.claim_jobs,
    treadle.take_jobs,
    treadle.wanted_lanes,
    treadle.is_head,
    treadle.held_jobs,
    treadle.rest,
    -- what a holder writes
    treadle.start_job,
    treadle.start_jobs,
    treadle.report_progress,
    treadle.record_event,
    treadle.record_events,
    treadle.keep_logs,
    treadle.save_checkpoint,
    treadle.finish_step,
    treadle.lock_held,
    treadle.lost_leases,
    treadle.complete_job,
    treadle.complete_jobs,
    treadle.settle_jobs,
    treadle.fail_job,
    treadle.release_job,
    treadle.retry_delay,
    -- what JobQueue and handles do beside it
    treadle.cancel_job,
    treadle.retry_job,
    treadle.find_ended,
    treadle.job_events,
    treadle.jobs_ahead,
    treadle.serving_workers,
    treadle.pause, -- (owner)
    treadle.resume, -- (owner)
    -- workers, and upkeep
    treadle.register_worker,
    treadle.renew_workers,
    treadle.heartbeat,
    treadle.recover_worker,
    treadle.recover_lost_workers,
    treadle.recover_stale_jobs,
    treadle.prune_jobs,
    treadle.sweep_stored,
    treadle.count_minutes,
    treadle.tick,
    treadle.tick_is_fresh,
    treadle.reads_fresh,
    -- waking
    treadle.ring,
    treadle.announce,
    treadle.await_ends, -- (owner)
    treadle.await_news, -- (owner)
    treadle.channel
    to treadle_worker;


-- treadle_viewer: sees how it goes, but no payload, result or checkpoint, and nothing of what is stored but that it is
-- there. What handlers tell and log, and their errors, it sees. Views of the server's own need one more:
-- grant pg_monitor to … (for the sessions of others in pg_stat_activity, replication, settings).
grant select (
    id, job_type, priority, status, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
    completed_at, attempts, max_attempts, last_error, queue, run_at, lease, holds, crashes, key, seen_at, finished_at,
    unique_key, pace, keeps,
    xmax -- who locks it: treadle why
)
    on treadle.jobs
    to treadle_viewer;
grant select (job_id, position, name, lease, done_at)
    on treadle.steps
    to treadle_viewer;
grant select (id, size, name, created_at, written_at, removing_at)
    on treadle.stored
    to treadle_viewer;
grant select on
    treadle.errors,
    treadle.events,
    treadle.logs,
    treadle.stored_uses,
    treadle.lanes,
    treadle.horizon,
    treadle.workers,
    treadle.pauses,
    treadle.audit,
    treadle.minutes,
    treadle.meter
    to treadle_viewer, treadle_operator;
grant select on sequence
    treadle.tick_clock,
    treadle.bell,
    treadle.awaited,
    treadle.watched
    to treadle_viewer, treadle_operator;
grant execute on function
    treadle.see_lanes,
    treadle.sample_jobs,
    treadle.find_jobs,
    treadle.find_pending,
    treadle.jobs_ahead,
    treadle.serving_workers,
    treadle.job_events,
    treadle.find_ended,
    treadle.is_head,
    treadle.wanted_lanes,
    treadle.tick_is_fresh,
    treadle.reads_fresh,
    treadle.retry_delay,
    treadle.await_ends, -- (owner)
    treadle.await_news, -- (owner)
    treadle.channel
    to treadle_viewer, treadle_operator;


-- treadle_operator: sees all that a viewer sees, and payloads, results and what is stored. It retries, cancels, deletes and
-- moves jobs, pauses and resumes, by functions that write each change to the audit: it can neither go around them nor write
-- there itself.
grant select on
    treadle.jobs,
    treadle.steps,
    treadle.stored,
    treadle.stored_parts
    to treadle_operator;
grant execute on function
    treadle.held_jobs,
    treadle.find_pending,
    treadle.operate, -- (owner)
    treadle.pause, -- (owner)
    treadle.resume -- (owner)
    to treadle_operator;
