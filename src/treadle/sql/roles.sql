-- The rights of four group roles without login. `treadle roles` prints this script with your names for the schema and the
-- groups, and `treadle roles --apply` runs it. A user gets the rights of a group by becoming its member:
--
--   grant treadle_worker to app_user;
--
-- Run it again after each `treadle migrate`: it grants the rights on what is new in the schema. It can be run at any time,
-- by the owner of the schema's tables, which needs CREATEROLE if the groups do not exist yet.
-- Functions run with the rights of the caller; those that run with the rights of their owner are marked (owner).

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


-- treadle_enqueue: adds jobs, by function or by INSERT, and gets their ids. It cannot read anything else of a job, nor
-- change one. It cannot use app.store, nor enqueue jobs that use stored objects.
grant
    insert (id, job_type, priority, data, created_at, max_attempts, queue, run_at, key, unique_key, unique_while, expires_at,
        partition, weight, headers),
    select (id)
    on treadle.jobs
    to treadle_enqueue;
grant execute on function
    treadle.enqueue,
    treadle.enqueue_jobs,
    treadle.enqueue_unique, -- (owner)
    treadle.enqueue_with_options, -- (owner)
    treadle.enqueue_workflow, treadle.close_workflow, treadle.send_signal, -- (owner)
    treadle.enqueue_unless_exists,
    treadle.change_unique_jobs,
    treadle.enqueue_per_period,
    treadle.add_jobs, treadle.check_options,
    treadle.insert_jobs,
    treadle.partition_parts, treadle.partition_of, treadle.partitions_of,
    treadle.make_room, -- (owner)
    treadle.check_job,
    treadle.wake_workers, -- (owner)
    treadle.new_id
    to treadle_enqueue;
grant select on
    treadle.limits,
    treadle.limit_targets,
    treadle.type_settings
    to treadle_enqueue;
grant select on sequence
    treadle.lane_epoch, treadle.wake_clock
    to treadle_enqueue;


-- treadle_worker: for workers and JobQueue. It reads and writes jobs and all that belongs to them. Errors, events, log lines
-- and steps can be added and deleted, but not changed.
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
    treadle.limit_holders, treadle.limit_openings,
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
    -- enqueueing
    treadle.enqueue,
    treadle.enqueue_jobs,
    treadle.enqueue_unique, -- (owner)
    treadle.enqueue_with_options, -- (owner)
    treadle.add_jobs, treadle.check_options,
    treadle.enqueue_unless_exists, treadle.change_unique_jobs, treadle.enqueue_per_period,
    treadle.insert_jobs,
    treadle.partition_parts, treadle.partition_of, treadle.partitions_of,
    treadle.make_room, -- (owner)
    treadle.check_job,
    treadle.new_id,
    treadle.use_stored,
    -- claiming
    treadle.claim_job_batch,
    treadle.claim_jobs,
    treadle.claim_work,
    treadle.claim_in_turns,
    treadle.oldest_of_lanes,
    treadle.running_transactions,
    treadle.claim_lanes,
    treadle.mark_claimed,
    treadle.cancel_expired,
    treadle.raise_floors,
    treadle.recent_lockers,
    treadle.make_idle,
    treadle.prepare_lanes,
    treadle.find_known_lanes, treadle.next_idle, treadle.lanes_in_turn,
    treadle.lane_after,
    treadle.is_head_of_key,
    treadle.newest_of_key,
    treadle.id_after,
    treadle.lock_unblocked,
    treadle.find_claimed_jobs,
    treadle.next_due, treadle.next_work, treadle.next_opening,
    -- limits
    treadle.lock_limits,
    treadle.lock_limit_keys,
    treadle.unlocked_lanes,
    treadle.admit_jobs,
    treadle.hold_slots,
    treadle.taken_slots,
    treadle.pick_fairly,
    treadle.fair_shares,
    treadle.aged_lanes,
    treadle.lowest_lanes,
    treadle.divide_jobs,
    treadle.park_lanes,
    treadle.lanes_with_room,
    treadle.limits_with_room,
    treadle.note_openings,
    treadle.unpark_lanes,
    treadle.has_room,
    treadle.reopen_limit,
    treadle.close_limits,
    treadle.set_partitions,
    treadle.move_to_partitions,
    treadle.forget_limit,
    treadle.forget_limit_keys,
    treadle.limit_lanes,
    treadle.count_pending,
    treadle.drop_oldest,
    treadle.declare_limits,
    treadle.set_limit, treadle.reset_limit, -- (owner)
    -- jobs that wait for others, and workflows
    treadle.note_dependency_check, treadle.note_member_change, -- (owner)
    treadle.enqueue_workflow, treadle.close_workflow, treadle.send_signal, -- (owner)
    treadle.add_dependencies, treadle.advance_waiting, treadle.decide_check, treadle.check_waiting, treadle.check_ended,
    treadle.settle_waiting, treadle.free_waiting, treadle.results_for, treadle.stop_waiting, treadle.describe_end, treadle.end_workflows,
    treadle.retry_workflow, treadle.recount_workflow, treadle.flag_watched, treadle.flag_dependencies, treadle.flag_inputs, treadle.flag_workflow,
    treadle.flag_counting, treadle.unblock_next, treadle.note_completed_members, treadle.flag_signal, treadle.blocked_by_signal, treadle.add_members, treadle.add_workflow,
    treadle.find_workflow, treadle.settle_workflows, treadle.roll_up_workflow, treadle.roll_up_workflows, treadle.report_workflow,
    treadle.watch_member, treadle.failed_member, treadle.why_skipped, treadle.carry_out_plan, treadle.begin_signals,
    treadle.end_signal, treadle.cancel_members, treadle.delete_members,
    -- what a worker writes about its jobs
    treadle.start_job,
    treadle.start_jobs,
    treadle.report_progress,
    treadle.record_event,
    treadle.record_events,
    treadle.keep_logs,
    treadle.save_checkpoint,
    treadle.finish_step,
    treadle.lock_claimed,
    treadle.find_lost_claims,
    treadle.complete_job,
    treadle.complete_jobs,
    treadle.settle_jobs,
    treadle.fail_job,
    treadle.release_job,
    treadle.retry_delay,
    -- the rest of JobQueue and handles
    treadle.cancel_job,
    treadle.retry_job,
    treadle.job_status,
    treadle.find_finished,
    treadle.job_events,
    treadle.jobs_ahead,
    treadle.serving_workers,
    treadle.set_paused, -- (owner)
    treadle.pause, -- (owner)
    treadle.resume, -- (owner)
    treadle.put_schedule, -- (owner)
    treadle.operate_schedule, -- (owner)
    -- workers and maintenance
    treadle.register_worker,
    treadle.renew_workers, treadle.report_stuck, treadle.report_stopped_children,
    treadle.set_concurrency, treadle.mute_errors, -- (owner)
    treadle.heartbeat,
    treadle.recover_worker,
    treadle.recover_lost_workers,
    treadle.clock_and_losses,
    treadle.recover_unregistered,
    treadle.recover_stale_jobs,
    treadle.prune_jobs,
    treadle.sweep_stored,
    treadle.count_minutes, treadle.sum_minutes, treadle.count_by_bucket, treadle.add_counts, treadle.group_errors,
    treadle.count_depths, treadle.count_segments, treadle.count_span, treadle.keep_depth, treadle.group_errors_between,
    treadle.normalise_error, treadle.prune_error_groups,
    treadle.tick,
    treadle.move_due_jobs,
    treadle.reset_floors,
    treadle.forget_ticks,
    treadle.forget_other_server, -- (owner)
    treadle.delete_unused_lanes,
    treadle.note_clock_jump,
    treadle.clock_before,
    -- schedules
    treadle.declare_schedules,
    treadle.change_schedule,
    treadle.find_due_schedules,
    treadle.enqueue_occurrences,
    treadle.enqueue_schedule,
    treadle.prune_schedules,
    treadle.expire_jobs,
    treadle.prune_unique_periods,
    -- notifications
    treadle.wake_workers, -- (owner)
    treadle.announce, treadle.is_awaited, treadle.is_watched,
    treadle.send_notification,
    -- the bits of jobs.flags
    treadle.flag_events,
    treadle.flag_logs,
    treadle.flag_steps, treadle.flag_opening,
    treadle.lane_entry
    to treadle_worker;


-- treadle_viewer: reads the state of the queue, including events, log lines and errors, but no payloads, results or
-- checkpoints, and of stored objects only that they exist. To see the sessions of other users in pg_stat_activity,
-- replication and settings, it also needs: grant pg_monitor to …
grant select (
    id, job_type, priority, status, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
    completed_at, attempts, max_attempts, last_error, queue, run_at, lease, holds, crashes, losses, key, seen_at, finished_at,
    unique_key, unique_while, expires_at, pace, flags, origin, partition, weight,
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
    treadle.meter, treadle.error_meter, treadle.worker_versions, treadle.deployments, treadle.occurrences, treadle.expiries,
    treadle.unique_periods,
    treadle.limits,
    treadle.limit_targets,
    treadle.limit_keys,
    treadle.limit_holders, treadle.limit_openings,
    treadle.type_settings, treadle.fair_weights,
    treadle.dependencies, treadle.dependency_checks, treadle.dependency_requests, treadle.member_changes, treadle.pruned
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
    treadle.find_jobs, treadle.find_ids, treadle.has_payload_index, treadle.has_values,
    treadle.find_claimable, treadle.id_digits, treadle.has_digits, treadle.id_at,
    treadle.jobs_ahead,
    treadle.serving_workers,
    treadle.job_events,
    treadle.find_finished,
    treadle.is_head_of_key,
    treadle.retry_delay,
    treadle.flag_events
    to treadle_viewer, treadle_operator;
grant execute on function
    -- parts that the planner inlines into the functions above: their callers need the right to call these, too
    treadle.blocked_by_key,
    treadle.is_blocked_by_key,
    treadle.has_attempts_left,
    treadle.is_claimable,
    treadle.key_rank,
    treadle.is_in_lane,
    treadle.distinct_lanes,
    treadle.lane_floor,
    treadle.safe_floor,
    treadle.lane_jobs, treadle.lane_after, treadle.blocked_by_jobs,
    treadle.safe_tick,
    treadle.tick_is_fresh,
    treadle.is_read_committed,
    treadle.limits_of, treadle.limit_key,
    -- metrics
    treadle.find_lanes, treadle.find_depths, treadle.count_statuses, treadle.count_lanes, treadle.lanes_to_display, treadle.kept_depth, treadle.time_buckets,
    treadle.find_group_jobs, treadle.is_muted,
    treadle.flag_limited, treadle.flag_member, treadle.blocked_by_jobs, treadle.is_waiting, treadle.is_satisfied, treadle.outcome_of, treadle.flag_skipped,
    -- limits
    treadle.find_limits, treadle.limit_statuses, treadle.limits_and_settings, treadle.limit_room, treadle.slots_in_use,
    treadle.limit_state, treadle.limit_lanes, treadle.count_pending,
    -- notifications
    treadle.request_notifications, -- (owner)
    treadle.channel
    to treadle_worker, treadle_viewer, treadle_operator;


-- treadle_operator: reads what a viewer reads, and also payloads, results and stored objects. It retries, cancels, deletes
-- and moves jobs, pauses and resumes, changes limits and the concurrency of workers, but only by functions that write each
-- change to the audit, which it cannot write itself.
grant select on
    treadle.jobs, treadle.workflows,
    treadle.steps,
    treadle.stored,
    treadle.stored_parts,
    treadle.schedules
    to treadle_operator;
grant execute on function
    treadle.find_claimed_jobs,
    treadle.find_claimable, treadle.find_by_payload,
    treadle.operate, treadle.send_signal, -- (owner)
    treadle.put_schedule, -- (owner)
    treadle.operate_schedule, -- (owner)
    treadle.set_paused, -- (owner)
    treadle.pause, -- (owner)
    treadle.resume, -- (owner)
    treadle.set_limit, -- (owner)
    treadle.reset_limit, -- (owner)
    treadle.set_concurrency, treadle.mute_errors -- (owner)
    to treadle_operator;
