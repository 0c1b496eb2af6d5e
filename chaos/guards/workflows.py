"""Workflows, batches and signals."""

from chaos.guards.mutant import FUNCTIONS, Mutant, test

SETTLE = f"{FUNCTIONS}/parts/settle_workflows.sql"
WATCH = f"{FUNCTIONS}/parts/watch_member.sql"
FIND = f"{FUNCTIONS}/parts/find_workflow.sql"
SIGNAL = f"{FUNCTIONS}/public/send_signal.sql"
JOB_ENDED = f"{FUNCTIONS}/triggers/job_ended.sql"
ENQUEUE = f"{FUNCTIONS}/parts/add_jobs.sql"

RACES = "queue/workflow_races"
BATCHES = "jobs/batches"
PARTS = "jobs/workflow_parts"
MAPS = "jobs/workflow_maps"
FAILURES = "jobs/workflow_failures"
SIGNALS = "jobs/signals"

MUTANTS = [
    Mutant(
        "the error of a block says that its batch stays open, if it could not be cancelled",
        "src/treadle/jobs/workflows/handles.py",
        "                self.cancel(_reason(error))\n            except _FAILURES as failure:\n"
        "                error.add_note(self._stays_open(failure))\n",
        "                self.cancel(_reason(error))\n            except _FAILURES:\n                pass\n",
        test("jobs/batches", "test_a_batch_that_stays_open_because_its_block_raised_during_an_outage_is_named"),
    ),
    Mutant(
        "ends that are counted together call no trigger for each job",
        f"{FUNCTIONS}/public/complete_jobs.sql",
        "~(treadle.flag_opening() | treadle.flag_counting())",
        "~treadle.flag_opening()",
        test("queue/dependency_cost", "test_completions_that_are_counted_together_call_no_trigger_for_each_job"),
    ),
    Mutant(
        "a transaction that adds jobs locks the workflow",
        FIND,
        "    for key share;\n",
        "    ;\n",
        test(RACES, "test_a_batch_does_not_end_while_a_transaction_adds_to_it"),
    ),
    Mutant(
        "a workflow does not end while a transaction adds jobs to it",
        SETTLE,
        "        for update skip locked\n",
        "",
        test(RACES, "test_a_batch_does_not_end_while_a_transaction_adds_to_it"),
    ),
    Mutant(
        "a workflow that could not be locked is looked at later",
        SETTLE,
        "    where other.id <> all (v_seen)\n",
        "    where false\n",
        test(RACES, "test_a_batch_does_not_end_while_a_transaction_adds_to_it"),
    ),
    Mutant(
        "nothing is added to a workflow that has ended",
        ENQUEUE,
        "        if v_workflow.id is null or v_workflow.has_ended then\n",
        "        if v_workflow.id is null then\n",
        test(BATCHES, "test_jobs_of_a_batch_add_more"),
    ),
    Mutant(
        "an open batch does not end",
        SETTLE,
        "        if v_workflow.is_open then\n",
        "        if false then\n",
        test(BATCHES, "test_a_batch_ends_when_it_is_closed_and_all_have_ended or test_jobs_of_a_batch_add_more"),
    ),
    Mutant(
        "a workflow ends when no job is left",
        SETTLE,
        "v_workflow.jobs <= v_workflow.completed + v_workflow.failed + v_workflow.cancelled then",
        "v_workflow.jobs <= v_workflow.completed + v_workflow.failed + v_workflow.cancelled + 1 then",
        test(RACES, "test_two_jobs_that_end_at_the_same_moment"),
    ),
    Mutant(
        "a job of a workflow is locked before it is watched",
        WATCH,
        "    limit 1\n    for no key update skip locked;\n",
        "    limit 1;\n",
        test(RACES, "test_two_jobs_that_end_at_the_same_moment"),
    ),
    Mutant(
        "a job of a workflow that is watched is marked",
        WATCH,
        "        set flags = job.flags | treadle.flag_watched()\n",
        "        set flags = job.flags\n",
        test(RACES, "test_one_of_the_last_jobs_is_watched_and_the_others_end_without_looking"),
    ),
    Mutant(
        "a workflow whose jobs are locked is looked at later",
        WATCH,
        "        perform treadle.note_dependency_check(",
        "        perform 1 where false; -- treadle.note_dependency_check(",
        test(RACES, "test_a_workflow_whose_last_jobs_are_locked_is_looked_at_later"),
    ),
    Mutant(
        "the last job that has not ended is watched",
        WATCH,
        "    order by job.id desc\n    limit 1\n",
        "    order by job.id\n    limit 1\n",
        test(RACES, "test_one_of_the_last_jobs_is_watched_and_the_others_end_without_looking"),
    ),
    Mutant(
        "ends are counted",
        JOB_ENDED,
        "    if v_flags & treadle.flag_counting() <> 0\n",
        "    if tg_op = 'DELETE' and v_flags & treadle.flag_counting() <> 0\n",
        test(RACES, "test_ends_by_whatever_statement_are_counted"),
    ),
    Mutant(
        "a job that was counted with others and is retried is counted again",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "        new.flags := new.flags | treadle.flag_counting();\n",
        "        null;\n",
        test("queue/job_ended", "test_a_job_of_a_workflow_is_counted_each_time_that_it_ends"),
    ),
    Mutant(
        "a job that has ended and is set to running by hand is not counted as ended",
        JOB_ENDED,
        "        or old.finished_at is not null\n",
        "",
        test("queue/by_hand", "test_a_finished_job_of_a_workflow_that_starts_again_has_not_ended"),
    ),
    Mutant(
        "whether a job was needed is decided anew when it is revived",
        f"{FUNCTIONS}/triggers/change_job.sql",
        "        new.flags := new.flags & ~treadle.flag_skipped();\n",
        "",
        test("queue/by_hand", "test_a_job_that_was_not_needed_and_is_revived_by_hand_may_be_cancelled"),
    ),
    Mutant(
        "jobs that are deleted before they end are counted",
        JOB_ENDED,
        "    if v_flags & treadle.flag_counting() <> 0\n",
        "    if tg_op <> 'DELETE' and v_flags & treadle.flag_counting() <> 0\n",
        test(RACES, "test_ends_by_whatever_statement_are_counted"),
    ),
    Mutant(
        "what is added while a workflow is cancelled is cancelled",
        f"{FUNCTIONS}/parts/roll_up_workflow.sql",
        "    if v_changed then\n",
        "    if false then\n",
        test(RACES, "test_what_is_added_while_a_batch_is_cancelled_is_cancelled"),
    ),
    Mutant(
        "ticks add up what has changed",
        f"{FUNCTIONS}/public/tick.sql",
        "    perform treadle.roll_up_workflows(v_last.ticked_at - c_wait) where exists",
        "    perform treadle.roll_up_workflows(v_last.ticked_at - c_wait) where false and exists",
        test(PARTS, "test_progress_by_effort"),
    ),
    Mutant(
        "what was not needed does not make a workflow fail",
        f"{FUNCTIONS}/parts/outcome_of.sql",
        "p_flags & treadle.flag_skipped() <> 0",
        "false",
        test(FAILURES, "test_an_error_handler_runs_only_if_it_is_needed"),
    ),
    Mutant(
        "the jobs of a workflow are kept until it is pruned",
        f"{FUNCTIONS}/public/prune_jobs.sql",
        "          and job.flags & treadle.flag_member() = 0 -- deleted with the workflow\n",
        "",
        test(PARTS, "test_a_workflow_is_pruned_as_one"),
    ),
    Mutant(
        "a workflow is kept while it has jobs",
        f"{FUNCTIONS}/public/prune_jobs.sql",
        "                      and edge.needs = 'member'\n",
        "                      and false\n",
        test(PARTS, "test_a_workflow_is_pruned_as_one"),
    ),
    Mutant(
        "only the first signal counts",
        SIGNAL,
        "    elsif v_job.status <> 'pending' or v_job.checkpoint is not null then\n",
        "    elsif v_job.status <> 'pending' then\n",
        test(SIGNALS, "test_a_signal_before_the_step_begins_to_wait"),
    ),
    Mutant(
        "a signal after its time is refused",
        SIGNAL,
        "    elsif v_job.expires_at <= clock_timestamp() then\n",
        "    elsif false then\n",
        test(SIGNALS, "test_a_signal_that_does_not_come"),
    ),
    Mutant(
        "a signal locks its step",
        SIGNAL,
        "    for no key update;\n",
        "    ;\n",
        test(RACES, "test_of_two_signals_at_the_same_moment_one_is_taken"),
    ),
    Mutant(
        "a signal that was sent before is taken when its step begins to wait",
        f"{FUNCTIONS}/parts/begin_signals.sql",
        "      and job.checkpoint is not null;\n",
        "      and false;\n",
        test(SIGNALS, "test_a_signal_before_the_step_begins_to_wait"),
    ),
    Mutant(
        "what undoes waits for what undoes later steps",
        f"{FUNCTIONS}/parts/carry_out_plan.sql",
        "                case when v_last is null then '[]' else",
        "                case when true then '[]' else",
        test(FAILURES, "test_completed_steps_are_undone_in_reverse_order"),
    ),
    Mutant(
        "an error about one job does not stop the others",
        f"{FUNCTIONS}/parts/decide_check.sql",
        "    exception when others then\n",
        "    exception when division_by_zero then\n",
        test(RACES, "test_an_error_about_one_job_does_not_stop_the_others"),
    ),
    Mutant(
        "what cannot be decided is looked at after all others",
        f"{FUNCTIONS}/parts/decide_check.sql",
        "            look_at = v_look_at,\n",
        "",
        test(RACES, "test_what_cannot_be_decided_does_not_keep_others_from_being_decided"),
    ),
    Mutant(
        "cancelling a workflow waits for nobody",
        f"{FUNCTIONS}/parts/cancel_members.sql",
        "        for no key update of job skip locked\n",
        "",
        test(RACES, "test_cancelling_a_batch_waits_for_nobody"),
    ),
    Mutant(
        "jobs are added in READ COMMITTED transactions only",
        ENQUEUE,
        "        if p_options.workflow -> 'is_new' is null and not treadle.is_read_committed() then\n",
        "        if false then\n",
        test(RACES, "test_jobs_are_added_in_read_committed_transactions_only"),
    ),
    Mutant(
        "a workflow is deleted before its jobs are let go",
        f"{FUNCTIONS}/triggers/drop_belongings.sql",
        "        where workflow.id = job.id;\n",
        "        where workflow.id = job.id and false;\n",
        test(RACES, "test_what_is_added_while_a_batch_is_deleted_is_on_its_own"),
    ),
    Mutant(
        "jobs of a cancelled workflow that were all locked are cancelled later",
        f"{FUNCTIONS}/parts/cancel_members.sql",
        "    if v_ids = '{}' then\n",
        "    if false then\n",
        test(RACES, "test_cancelling_a_batch_whose_jobs_are_all_locked_goes_on_later"),
    ),
    Mutant(
        "only what a workflow adds by itself may exceed max_pending",
        ENQUEUE,
        "        v_has_plan := v_workflow.has_plan;\n",
        "        v_has_plan := true;\n",
        test("jobs/max_pending", "test_jobs_that_are_added_to_a_workflow_count"),
    ),
]
