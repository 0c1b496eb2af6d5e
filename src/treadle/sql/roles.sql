-- The rights of four group roles without login. `treadle roles` prints this script with your names for the schema and
-- the groups, and `treadle roles --apply` runs it. A user gets the rights of a group by becoming its member:
--
--   grant treadle_worker to app_user;
--
-- Run it again after each `treadle migrate`: it grants the rights on what is new in the schema. It can be run at any
-- time, by the owner of the schema's tables, which needs CREATEROLE if the groups do not exist yet. Most functions run
-- with the rights of their caller, who could do the same without them: all groups may call them. The others run with
-- the rights of their owner, and are granted by name.

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
                null; -- another session just created it, for another database of this server
            end;
        end if;
    end loop;
end
$$;

-- First revoke everything: this takes back what an earlier version granted and this one does not, and all of PUBLIC.
revoke all on schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
revoke all on all tables in schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
revoke all on all sequences in schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
revoke all on all functions in schema treadle
    from public, treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;

-- All groups: use the schema (but create nothing in it), and check whether its version fits.
grant usage on schema treadle
    to treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
grant select on treadle.migrations, treadle.functions
    to treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
grant execute on all functions in schema treadle
    to treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator;
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select owned.oid
        from pg_catalog.pg_proc as owned
        join pg_catalog.pg_class as jobs on jobs.relnamespace = owned.pronamespace
        where jobs.oid = 'treadle.jobs'::regclass
          and owned.prosecdef
    loop
        execute pg_catalog.format(
            'revoke all on function %s from treadle_enqueue, treadle_worker, treadle_viewer, treadle_operator',
            v_function
        );
    end loop;
end
$$;


-- treadle_enqueue: adds jobs, by function or by INSERT, and gets their ids: PostgreSQL has no right to those alone, so it may
-- list the ids of all jobs. It cannot read anything else of a job, nor change one, nor let one take the result of another, except
-- within a workflow that it enqueues. It cannot use app.store, nor enqueue jobs that use stored objects.
grant
    insert (id, job_type, priority, data, created_at, max_attempts, queue, run_at, key, unique_key, unique_while, expires_at,
        partition, weight, headers, timeout),
    select (id)
    on treadle.jobs
    to treadle_enqueue;
grant execute on function
    treadle.enqueue_unique, treadle.enqueue_with_options, treadle.enqueue_workflow, treadle.close_workflow,
    treadle.send_signal, treadle.make_room, treadle.wake_workers
    to treadle_enqueue;
grant select on
    treadle.limits,
    treadle.limit_targets,
    treadle.type_settings
    to treadle_enqueue;
grant select on sequence
    treadle.lane_epoch, treadle.wake_clock
    to treadle_enqueue;


-- treadle_worker: for workers and JobQueue. It reads and writes jobs and all that belongs to them. Errors, events, log
-- lines and steps can be added and deleted, but not changed.
grant select, insert, update, delete on
    treadle.jobs,
    treadle.lanes,
    treadle.floors,
    treadle.ticks,
    treadle.workers,
    treadle.stored,
    treadle.stored_parts,
    treadle.stored_uses,
    treadle.expiries,
    treadle.unique_periods,
    treadle.limits,
    treadle.limit_targets,
    treadle.limit_keys,
    treadle.limit_holders, treadle.limit_openings, treadle.unlisted_limits, treadle.unlisted_jobs,
    treadle.type_settings, treadle.fair_weights,
    treadle.dependencies, treadle.dependency_checks, treadle.workflows, treadle.member_changes
    to treadle_worker;
grant select, insert, delete on
    treadle.errors,
    treadle.events,
    treadle.logs,
    treadle.steps,
    treadle.wake_requests, treadle.dependency_requests,
    treadle.clock_jumps,
    treadle.pruned
    to treadle_worker;
grant select, delete on -- register_worker() deletes what was set for an earlier worker of the name
    treadle.worker_concurrency
    to treadle_worker;
grant select, insert, update, delete on
    treadle.minutes, treadle.totals, treadle.depths, treadle.depth_history, treadle.spans, treadle.worker_starts,
    treadle.error_groups, treadle.error_group_hours, treadle.error_group_versions, treadle.grouped_errors,
    treadle.schedules, treadle.error_meter, treadle.worker_versions, treadle.deployments, treadle.occurrences
    to treadle_worker;
grant select, update on
    treadle.meter
    to treadle_worker;
grant select on
    treadle.pauses,
    treadle.audit
    to treadle_worker;
grant select, update on sequence
    treadle.tick_clock, treadle.lane_clock, treadle.lane_epoch,
    treadle.wake_clock, treadle.depth_clock,
    treadle.awaited,
    treadle.watched,
    treadle.fair_turns
    to treadle_worker;
grant execute on function
    treadle.enqueue_unique, treadle.enqueue_with_options, treadle.enqueue_workflow, treadle.close_workflow,
    treadle.send_signal, treadle.make_room, treadle.wake_workers, treadle.note_dependency_check,
    treadle.note_member_changes, treadle.forget_other_server, treadle.pause, treadle.resume, treadle.set_limit,
    treadle.reset_limit, treadle.set_concurrency, treadle.mute_errors, treadle.put_schedule, treadle.operate_schedule,
    treadle.request_notifications
    to treadle_worker;


-- treadle_viewer: reads the state of the queue, including events, log lines and errors, but no payloads, results or
-- checkpoints, and of stored objects only that they exist. To see the sessions of other users in pg_stat_activity,
-- replication and settings, it also needs: grant pg_monitor to …
grant select (
    id, job_type, priority, status, progress, current_stage, events_count, worker_id, claimed_at, created_at,
    started_at, completed_at, attempts, max_attempts, last_error, queue, run_at, lease, holds, crashes, losses, key,
    seen_at, finished_at, unique_key, unique_while, expires_at, pace, flags, origin, partition, weight, timeout,
    xmax -- which transaction locks the row: treadle why
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
    treadle.floors,
    treadle.ticks,
    treadle.clock_jumps,
    treadle.workers,
    treadle.worker_concurrency,
    treadle.pauses,
    treadle.audit,
    treadle.minutes, treadle.totals, treadle.depths, treadle.depth_history, treadle.spans, treadle.worker_starts,
    treadle.error_groups, treadle.error_group_hours, treadle.error_group_versions, treadle.grouped_errors,
    treadle.meter, treadle.error_meter, treadle.worker_versions, treadle.deployments, treadle.occurrences,
    treadle.expiries, treadle.unique_periods, treadle.limits, treadle.limit_targets, treadle.limit_keys,
    treadle.limit_holders, treadle.limit_openings, treadle.unlisted_limits, treadle.unlisted_jobs, treadle.type_settings,
    treadle.fair_weights, treadle.dependencies,
    treadle.dependency_checks, treadle.dependency_requests, treadle.member_changes, treadle.pruned
    to treadle_viewer, treadle_operator;
grant select (id, is_open, has_plan, jobs, completed, failed, cancelled, work, done) on treadle.workflows to treadle_viewer;
grant select (
    name, job_type, priority, queue, max_attempts, key, expression, timezone, clocks_forward, clocks_back, missed,
    missed_limit, overlap, jitter, starts_at, ends_at, next_at, last_at, last_job, error, retry_at, paused_at, digest,
    former_digests, declared_at, retired_at, created_at, changed_at
)
    on treadle.schedules
    to treadle_viewer;
grant select on sequence
    treadle.tick_clock, treadle.lane_clock,
    treadle.wake_clock,
    treadle.awaited,
    treadle.watched
    to treadle_viewer, treadle_operator;
grant execute on function
    treadle.request_notifications
    to treadle_viewer;


-- treadle_operator: reads what a viewer reads, and also payloads, results and stored objects. It retries, cancels,
-- deletes and moves jobs, pauses and resumes, changes limits and the concurrency of workers, runs, pauses and deletes schedules, but
-- only by functions that write each change to the audit, which it cannot write itself. It adds no jobs and no schedules: to edit or
-- copy a job, a user has to be a member of treadle_enqueue as well.
grant select on
    treadle.jobs, treadle.workflows,
    treadle.steps,
    treadle.stored,
    treadle.stored_parts,
    treadle.schedules
    to treadle_operator;
grant execute on function
    treadle.operate, treadle.edit_job, treadle.copy_job,
    treadle.send_signal, treadle.pause, treadle.resume, treadle.set_limit, treadle.reset_limit,
    treadle.set_concurrency, treadle.mute_errors, treadle.operate_schedule,
    treadle.request_notifications
    to treadle_operator;
