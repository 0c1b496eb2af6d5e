-- Written by `make schema` from a migrated database; a test compares. Functions: src/treadle/sql/functions.

CREATE SCHEMA treadle;

CREATE TYPE treadle.enqueue_options AS (
	priority integer,
	queue character varying,
	run_at timestamp with time zone,
	delay interval,
	key character varying,
	max_attempts integer,
	weight integer,
	timeout double precision[],
	partition text,
	headers jsonb,
	expires interval,
	expires_at timestamp with time zone,
	keys character varying[],
	partitions text[],
	unique_keys character varying[],
	unique_while character varying,
	period interval,
	per_period integer,
	on_conflict character varying[],
	latest interval,
	all_or_none boolean,
	after jsonb,
	workflow jsonb,
	origin jsonb
);

COMMENT ON TYPE treadle.enqueue_options IS 'The options of enqueue_with_options(), which describes them.';

CREATE TYPE treadle.lane AS (
	queue character varying,
	job_type character varying,
	priority integer,
	partition character varying COLLATE pg_catalog."C"
);

COMMENT ON TYPE treadle.lane IS 'What identifies a lane: its jobs are claimed in the order of their run_at.';

CREATE TYPE treadle.lane_range AS (
	lane treadle.lane,
	start timestamp with time zone
);

COMMENT ON TYPE treadle.lane_range IS 'The jobs of a lane that are due at start or later.';

CREATE TYPE treadle.known_lanes AS (
	lanes treadle.lane_range[],
	limited boolean,
	next_wake timestamp with time zone
);

COMMENT ON TYPE treadle.known_lanes IS 'What a session keeps between its searches: the lanes to read, whether there are limits, and when a dormant lane wakes. See find_known_lanes().';

COMMENT ON FUNCTION treadle.add_dependencies(p_ids uuid[], p_after jsonb) IS 'Notes which jobs these new ones wait for. For enqueue_with_options(): p_after is a list of objects such as {"id": "…", "ok_to_fail": true, "arguments": ["receipt"]}, or with if_failed.';

COMMENT ON FUNCTION treadle.add_jobs(p_job_type character varying, p_data text[], p_options treadle.enqueue_options) IS 'Enqueues jobs with options, for enqueue_with_options(), which describes the options, and for workflows and schedules, whose jobs have the same options.';

COMMENT ON FUNCTION treadle.add_members(p_ids uuid[], p_workflow jsonb) IS 'Makes new jobs part of a workflow. p_workflow is an object such as {"id": "…", "steps": ["fetch", null], "positions": [0, 1], "efforts": [1, 5]}, where the lists have an element for each job, or are missing: what the workflow calls them; the positions of their results in its own, null for none, -1 for the whole; and how much of its work they are.';

COMMENT ON FUNCTION treadle.add_workflow(p_id uuid, p_data jsonb, p_returns boolean, p_open boolean, p_deadline double precision, p_plan jsonb, p_after jsonb, p_part jsonb) IS 'Adds the job that a workflow is. Its row in workflows exists.';

COMMENT ON FUNCTION treadle.admit_jobs(p_now timestamp with time zone, p_places tid[], p_names character varying[], p_keys character varying[], p_room integer[], p_weighted boolean, p_fair boolean) IS 'Of the jobs that claim_lanes() has locked, those that fit into the room of their limits, in the order of their time; if the lanes take turns, in a random order that keeps their shares and the order within each. If one does not fit, those behind it in its lane wait, too. A job that weighs more than its limit allows in all fits when nothing else uses the limit.';

COMMENT ON FUNCTION treadle.advance_waiting(p_limit integer) IS 'Decides about jobs that wait for others, as far as that could not be decided at commit. A part of claims and ticks; several may do this at the same time.';

COMMENT ON FUNCTION treadle.aged_lanes(p_job_types character varying[], p_queues character varying[], p_before timestamp with time zone, p_lanes treadle.lane_range[]) IS 'The lanes of the priority whose first job has waited longest, if that was due before p_before: see Treadle(aging=…). Of p_lanes; or if there are too many, of some of each of the lowest priorities of each job type, beginning at a random one.';

COMMENT ON FUNCTION treadle.announce(p_ids uuid[], p_kind text) IS 'Sends the ids of jobs to the sessions that wait for the jobs to finish (ends), or that watch their events and progress (news). Nothing is sent unless a session has requested it: see request_notifications().';

COMMENT ON FUNCTION treadle.begin_signals(p_ids uuid[]) IS 'Lets jobs wait for their signals: jobs whose rows are locked, and that no longer wait for other jobs. A signal that was sent before is in their checkpoint. From now on the time counts.';

COMMENT ON FUNCTION treadle.begins_act(p_act uuid, p_continues boolean) IS 'Whether a change begins an act, so that it is carried out: false if the act was begun before. If somebody has the lock, then another call is just beginning it; one that continues it need not know.';

COMMENT ON FUNCTION treadle.blocked_by_jobs() IS 'The bit of jobs.holds that says: other jobs have to end first.';

COMMENT ON FUNCTION treadle.blocked_by_key() IS 'The bit of jobs.holds that says: an earlier job with the same key has not finished.';

COMMENT ON FUNCTION treadle.blocked_by_signal() IS 'The bit of jobs.holds that says: a signal has to be sent first.';

COMMENT ON FUNCTION treadle.cancel_expired(p_ids uuid[]) IS 'Ends jobs whose time is over: they are cancelled; one that waits for a signal fails. Their rows are locked by the caller.';

COMMENT ON FUNCTION treadle.cancel_job(p_id uuid, p_reason text, p_lease bigint, p_worker_id character varying) IS 'Cancels an unfinished job; a worker that has claimed it loses the claim. Of a workflow, all of its jobs are cancelled. Returns false if it has finished already.';

COMMENT ON FUNCTION treadle.cancel_members(p_id uuid, p_reason text, p_limit integer) IS 'Cancels the jobs of a workflow that have not ended: p_limit of them, and not those that somebody has locked. The others are left to the next tick. So nothing waits, and a workflow of a million jobs is cancelled in parts.';

COMMENT ON FUNCTION treadle.carry_out_plan(p_id uuid, p_plan jsonb) IS 'Adds the jobs of a workflow that are only known when it begins. The row of the workflow is locked.';

COMMENT ON FUNCTION treadle.change_job() IS 'Trigger: sets finished_at of a job, and places a job that becomes claimable at or above the floor of its lane.';


SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE treadle.schedules (
    name character varying(100) NOT NULL,
    job_type character varying(50) NOT NULL,
    data jsonb DEFAULT '{}'::jsonb NOT NULL,
    priority integer DEFAULT 100 NOT NULL,
    queue character varying(50) DEFAULT 'default'::character varying NOT NULL,
    max_attempts integer DEFAULT 3 NOT NULL,
    key character varying(200),
    options jsonb,
    expression character varying(1000) NOT NULL,
    timezone character varying(100) DEFAULT 'UTC'::character varying NOT NULL,
    clocks_forward character varying(10) DEFAULT 'run_late'::character varying NOT NULL,
    clocks_back character varying(10) DEFAULT 'run_once'::character varying NOT NULL,
    missed character varying(10) DEFAULT 'latest'::character varying NOT NULL,
    missed_limit integer DEFAULT 100 NOT NULL,
    overlap character varying(10) DEFAULT 'allow'::character varying NOT NULL,
    jitter interval DEFAULT '00:00:00'::interval NOT NULL,
    starts_at timestamp with time zone,
    ends_at timestamp with time zone,
    next_at timestamp with time zone,
    last_at timestamp with time zone,
    last_job uuid,
    error text,
    retry_at timestamp with time zone,
    paused_at timestamp with time zone,
    digest character varying(64),
    former_digests character varying(64)[] DEFAULT '{}'::character varying[] NOT NULL,
    declared_at timestamp with time zone,
    retired_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT valid_clocks_back CHECK (((clocks_back)::text = ANY ((ARRAY['run_once'::character varying, 'run_twice'::character varying])::text[]))),
    CONSTRAINT valid_clocks_forward CHECK (((clocks_forward)::text = ANY ((ARRAY['run_late'::character varying, 'skip'::character varying])::text[]))),
    CONSTRAINT valid_jitter CHECK ((jitter >= '00:00:00'::interval)),
    CONSTRAINT valid_missed CHECK (((missed)::text = ANY ((ARRAY['skip'::character varying, 'latest'::character varying, 'all'::character varying])::text[]))),
    CONSTRAINT valid_missed_limit CHECK (((missed_limit >= 1) AND (missed_limit <= 10000))),
    CONSTRAINT valid_overlap CHECK (((overlap)::text = ANY ((ARRAY['allow'::character varying, 'skip'::character varying, 'wait'::character varying])::text[])))
);

COMMENT ON TABLE treadle.schedules IS 'What is enqueued again and again. Workers compute the times and enqueue the jobs.';

COMMENT ON COLUMN treadle.schedules.expression IS 'Cron with five or six fields, @hourly and the like, or "every 90s".';

COMMENT ON COLUMN treadle.schedules.clocks_forward IS 'What happens at a local time that does not exist because clocks are set forward: run_late or skip.';

COMMENT ON COLUMN treadle.schedules.clocks_back IS 'What happens at a local time that comes twice because clocks are set back: run_once or run_twice.';

COMMENT ON COLUMN treadle.schedules.missed IS 'What is enqueued after nobody could enqueue for some time: skip (nothing), latest, or all (up to missed_limit).';

COMMENT ON COLUMN treadle.schedules.overlap IS 'What happens while the job of the time before has not finished: allow, skip, or wait (one after the other).';

COMMENT ON COLUMN treadle.schedules.jitter IS 'The job is due up to this much later, at random.';

COMMENT ON COLUMN treadle.schedules.next_at IS 'The next time; null until a worker has computed it, infinity if there is none.';

COMMENT ON COLUMN treadle.schedules.error IS 'Why the last try to compute or enqueue failed.';

COMMENT ON COLUMN treadle.schedules.retry_at IS 'When to try again after an error.';

COMMENT ON COLUMN treadle.schedules.digest IS 'Of the declaration in code that is in force; null: added at run time.';

COMMENT ON COLUMN treadle.schedules.former_digests IS 'Of declarations that a later one has replaced.';

COMMENT ON COLUMN treadle.schedules.declared_at IS 'When a worker last declared it.';

COMMENT ON COLUMN treadle.schedules.retired_at IS 'When it was found that no worker declares it any longer.';

COMMENT ON FUNCTION treadle.change_schedule(p_old treadle.schedules, p_new treadle.schedules, p_keep boolean) IS 'Writes the definition of a schedule. Its next time is computed anew, from now on, if its times have changed or p_keep is false.';

COMMENT ON FUNCTION treadle.new_id() IS 'A new time-ordered job id (uuid version 7). PostgreSQL 18 and newer make version 7 uuids themselves: 2 microseconds against 7 for new_id.sql.';

CREATE TABLE treadle.jobs (
    id uuid DEFAULT treadle.new_id() NOT NULL,
    job_type character varying(50) NOT NULL,
    priority integer DEFAULT 100 NOT NULL,
    status character varying(20) DEFAULT 'pending'::character varying NOT NULL,
    data jsonb DEFAULT '{}'::jsonb NOT NULL,
    progress integer DEFAULT 0,
    current_stage character varying(100),
    events_count integer DEFAULT 0,
    worker_id character varying(100),
    claimed_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now(),
    started_at timestamp with time zone,
    completed_at timestamp with time zone,
    attempts integer DEFAULT 0,
    max_attempts integer DEFAULT 3,
    last_error text,
    run_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    seen_at timestamp with time zone,
    finished_at timestamp with time zone,
    lease bigint DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    losses integer,
    weight integer,
    holds smallint DEFAULT 0 NOT NULL,
    flags smallint DEFAULT 0 NOT NULL,
    queue character varying(50) DEFAULT 'default'::character varying NOT NULL,
    partition character varying(500) DEFAULT ''::character varying NOT NULL COLLATE pg_catalog."C",
    key character varying(200),
    unique_key character varying(200),
    unique_while character varying(10),
    result jsonb,
    pace jsonb,
    checkpoint jsonb,
    origin jsonb,
    headers jsonb,
    timeout double precision[],
    CONSTRAINT valid_status CHECK (
CASE
    WHEN (finished_at IS NULL) THEN ((status)::text = ANY ('{pending,claimed,running,completed,failed,cancelled}'::text[]))
    ELSE ((status)::text = ANY ('{completed,failed,cancelled}'::text[]))
END)
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.jobs IS 'One row per job, from enqueue until it is pruned.';

COMMENT ON COLUMN treadle.jobs.run_at IS 'The job is not claimed before this time; also its place in its lane. If an insert leaves it out, it follows created_at.';

COMMENT ON COLUMN treadle.jobs.expires_at IS 'If no worker has claimed the job by then, it is cancelled. A claim sets it to null.';

COMMENT ON COLUMN treadle.jobs.seen_at IS 'The last report of the worker about this job, if there was one.';

COMMENT ON COLUMN treadle.jobs.finished_at IS 'When the job became completed, failed or cancelled.';

COMMENT ON COLUMN treadle.jobs.lease IS 'The lease number: each claim increments it, and nothing else does. It fences the writes of a worker.';

COMMENT ON COLUMN treadle.jobs.crashes IS 'How often the process in which the job ran has died.';

COMMENT ON COLUMN treadle.jobs.losses IS 'How often its worker was lost as a whole while the job ran, since an attempt last failed by itself; null: never.';

COMMENT ON COLUMN treadle.jobs.weight IS 'How much of each of its limits the job uses. Null: 1.';

COMMENT ON COLUMN treadle.jobs.holds IS 'What a pending job waits for besides its time, as bits: 1 = an earlier job with the same key, 2 = other jobs (dependencies), 4 = a signal. 0: nothing.';

COMMENT ON COLUMN treadle.jobs.flags IS 'What else there is to know about this job, as bits: 1 = it has events, 2 = log lines, 4 = steps, 8 = dependencies, 16 = it takes results of other jobs, 32 = it is a workflow, 64 = it is part of a workflow, 128 = it was cancelled because it was not needed, 256 = it waits for a signal, 512 = it was claimed under a limit, 1024 = while it runs: its attempt must not be repeated. And what job_ended() does when it ends: 2048 = its limits may have room, 4096 = its workflow counts it, 8192 = jobs wait for it. Each bit has a function: flag_events() and so on.';

COMMENT ON COLUMN treadle.jobs.partition IS 'The values that limits and fairness tell jobs apart by, as a JSON object ({"tenant": "acme"}); empty for most. Jobs of different partitions are in different lanes.';

COMMENT ON COLUMN treadle.jobs.key IS 'Jobs with the same key run one at a time, in the order they were enqueued.';

COMMENT ON COLUMN treadle.jobs.unique_key IS 'While this job is unfinished (or pending: see unique_while), no other job of its type with the same unique key is added.';

COMMENT ON COLUMN treadle.jobs.unique_while IS '"pending": a claim removes the unique key. Null: the job has it until it is finished.';

COMMENT ON COLUMN treadle.jobs.pace IS 'What the handler counts: done, total, rate per second and seconds left.';

COMMENT ON COLUMN treadle.jobs.checkpoint IS 'What the handler saved last; the next attempt finds it.';

COMMENT ON COLUMN treadle.jobs.origin IS 'Where the job comes from, if a schedule enqueued it: the schedule, the time for which it was enqueued, and the time before that.';

COMMENT ON COLUMN treadle.jobs.headers IS 'Named strings that are stored with the job, for middleware: for example, the context of a trace. Null if there are none.';

COMMENT ON COLUMN treadle.jobs.timeout IS 'The seconds until the handler is interrupted, and until it is killed; each may be null. Null: as its function says.';

COMMENT ON FUNCTION treadle.change_unique_jobs(p_job treadle.jobs, p_data text[], p_partitions character varying[], p_options treadle.enqueue_options, p_nths integer[], p_unique character varying[], p_ids uuid[]) IS 'Changes pending jobs as on_conflict says, for enqueue_unless_exists(), which has locked them. p_nths and p_unique say which element of p_data belongs to which unique key.';

COMMENT ON FUNCTION treadle.channel(p_kind text) IS 'The name of the channel to LISTEN to: "work" (jobs to claim, or to stop), "ends" (the ids of jobs that finished) or "news" (the ids of jobs with new events or progress). Channels belong to the database, not to a schema. A number stands for the schema: its name may be too long.';

COMMENT ON FUNCTION treadle.check_at_commit() IS 'Trigger: at commit, decides what an end, a retry or an enqueue means for jobs that wait for others. At commit, because the rows that are locked here must not stay locked for long: workers that end those jobs would have to wait.';

COMMENT ON FUNCTION treadle.check_edit(p_arguments jsonb) IS 'Raises an exception if the caller may not enqueue, or if these are no arguments of a job. Operators who may only operate jobs would enqueue whatever they like if they could choose the arguments.';

COMMENT ON FUNCTION treadle.check_ended(p_id uuid, p_past uuid, p_limit integer) IS 'Decides what the end or the retry of a job means for those that wait for it: for p_limit of them, those after p_past. Returns the last of these; null if that is all. Rows that somebody else has locked are noted for later.';

COMMENT ON FUNCTION treadle.check_identity() IS 'Trigger: before the key or the partition of a job is changed. The key of an unfinished job cannot change: other jobs may be blocked behind it. A partition is a JSON object, as the lane of the job demands: without it, the job could not be given back.';

COMMENT ON FUNCTION treadle.check_job(p_max_attempts integer, p_headers jsonb) IS 'Raises an exception if a job cannot have these options.';

COMMENT ON FUNCTION treadle.check_options(p_data text[], p_options treadle.enqueue_options) IS 'The options of jobs with their defaults, for add_jobs(); raises an exception if jobs cannot have them.';

COMMENT ON FUNCTION treadle.check_results(p_after jsonb) IS 'Refuses jobs that take the results of jobs which were there before (p_after as in enqueue_with_options()), if the role of the session may not read results: otherwise a role that may only enqueue could have any result handed to a job of its choice.';

COMMENT ON FUNCTION treadle.check_waiting(p_ids uuid[], p_past uuid) IS 'Decides what these jobs wait for. Returns those whose rows somebody else has locked: whoever did that may let them run, or cancel them.';

COMMENT ON FUNCTION treadle.claim_in_turns(p_worker_id character varying, p_job_types character varying[], p_wanted integer, p_queues character varying[]) IS 'The claim of lanes that are limited, fair or aged, or too many to be read at once; also of whatever an ordinary claim (claim_jobs) may have missed. Returns the ids of the jobs.';

COMMENT ON FUNCTION treadle.claim_job_batch(p_worker_id character varying, p_job_types character varying[], p_batch_size integer) IS 'Claims up to p_batch_size pending jobs of the given types, highest priority first, then oldest: select * from "treadle".claim_job_batch(''worker-1'', ''{welcome}''). This is claim_jobs() as the specification has it.';

COMMENT ON FUNCTION treadle.claim_jobs(p_worker_id character varying, p_job_types character varying[], p_batch_size integer, p_queues character varying[], p_known treadle.known_lanes) IS 'Claims up to p_batch_size due jobs of these types (in these queues, or in all): of the highest priority first, then the oldest. Lanes with limits, fairness or aging are left to claim_in_turns().';

COMMENT ON FUNCTION treadle.claim_lanes(p_worker_id character varying, p_now timestamp with time zone, p_running xid[], p_wanted integer, p_lanes treadle.lane_range[], p_limited boolean, p_fair character varying[], p_due timestamp with time zone, p_wait boolean) IS 'Claims jobs from lanes of one priority that may be limited, fair or aged, and returns their ids. A part of claim_in_turns(), whose settings fix the plans. The steps are those of claim_jobs(): choose, lock, mark; under limits, the room is asked for before the rows are locked (lock_limits), and what does not fit stays (admit_jobs).';

COMMENT ON FUNCTION treadle.claim_work(p_worker_id character varying, p_job_types character varying[], p_batch_size integer, p_queues character varying[], p_listen boolean, p_answered bigint) IS 'claim_jobs() for workers, with only the columns that they need. If p_listen and it finds fewer jobs than it may claim, the last row has only the column due: what next_due() returns then.';

COMMENT ON FUNCTION treadle.clock_and_losses(OUT clock bigint, OUT jumps bigint, OUT losses boolean, OUT next_loss double precision) IS 'The clock in microseconds, its last jump that was noted, whether recover_lost_workers() would find something to do, and in how many seconds the next lease runs out. For workers: one statement for all questions.';

COMMENT ON FUNCTION treadle.clock_before(p_age interval, p_now timestamp with time zone) IS 'The time that the clock showed p_age before p_now, jumps of the clock taken into account. If it was set forward by a day an hour ago, then what was written two hours ago is 26 hours old by the clock: without this, leases would have run out, and jobs would be pruned too early.';

COMMENT ON FUNCTION treadle.close_limits(p_ids uuid[], p_until timestamp with time zone[], p_parts character varying[]) IS 'After handlers were told to wait: closes the limits of each job until its element of p_until. Those per its element of p_parts, if that is not null; otherwise the rates, or all if there is none. Two calls lock limits in the same order, whatever the jobs.';

COMMENT ON FUNCTION treadle.close_workflow(p_id uuid) IS 'Closes a batch: it ends when all of its jobs have ended. Returns false if it is not open.';

COMMENT ON FUNCTION treadle.complete_job(p_id uuid, p_result jsonb, p_lease bigint, p_worker_id character varying, p_seconds double precision) IS 'Completes a job, with its result. Returns false if the claim is lost or the job has finished already. p_seconds is how long ago it started: a short job completes before it was ever reported as running.';

COMMENT ON FUNCTION treadle.complete_jobs(p_ids uuid[], p_leases bigint[], p_worker_ids character varying[], p_results text[], p_seconds double precision[]) IS 'Completes claimed jobs, each fenced by its lease number and worker, with results as JSON texts and how many seconds ago they started. Returns the ids that were accepted.';

COMMENT ON FUNCTION treadle.confirm_blocked() IS 'Trigger: at commit, unblocks an inserted job that no other job would unblock any more.';

COMMENT ON FUNCTION treadle.copy_job(p_id uuid, p_arguments jsonb, p_actor text, p_reason text, p_act uuid, p_stored uuid[], OUT copy_id uuid, OUT outcome character varying) IS 'Enqueues a copy of a job, of any status: a new job with its type, queue, priority, key, number of attempts, headers, time limits and arguments, except for those that p_arguments names. It is no part of a workflow, waits for no other job, and is not unique. Writes a row of the audit. The outcome is done, missing, unfit (it is a workflow, or waits for its arguments) or repeated:';

COMMENT ON FUNCTION treadle.count_by_bucket(p_seconds double precision[]) IS 'A histogram: how many of the times lie in each bucket of time_buckets(), and at last how many are longer. Nulls are not counted.';

COMMENT ON FUNCTION treadle.count_depths(p_limit integer, p_time interval, p_keep interval) IS 'Counts the jobs of lanes, and of finished statuses, that are too many to be counted whenever somebody looks: see find_depths.sql, count_statuses.sql and, for how, count_segments.sql. Also keeps for each minute how many jobs waited, by queue and type. Returns in how many seconds it is due again.';

COMMENT ON FUNCTION treadle.count_lanes(p_lanes treadle.lane[], p_starts timestamp with time zone[], p_known bigint[], p_budget integer, OUT depths bigint[], OUT counted_to integer[]) IS 'Counts the jobs of lanes along idx_jobs_claimable, from p_starts on. p_budget is shared by those that need it: first every lane is counted up to an equal share, then the rest is divided among the lanes that have more, and once again. So a lane with 7,000 jobs among 60 short ones is counted completely. Each round reads at most p_budget entries, or 100 per lane.';

COMMENT ON FUNCTION treadle.count_minutes(p_lag interval, p_limit integer, p_keep interval) IS 'Counts the jobs that finished since the last call, per minute and in total, for charts and metrics. Workers call it every few seconds. Returns how many rows of minutes changed.';

COMMENT ON FUNCTION treadle.count_outcomes(p_id uuid, p_limit integer) IS 'How the jobs of a workflow have ended, up to p_limit of them, by their own rows. The planner inlines this function.';

COMMENT ON FUNCTION treadle.count_pending(p_name character varying, p_per character varying, p_key character varying, p_most integer) IS 'How many of the jobs that a limit is for, or of one value of its "per", wait; counted up to p_most, from the floors of the lanes. Of jobs that wait for an earlier one of their key, at most c_blocked are looked at.';

COMMENT ON FUNCTION treadle.count_segments(p_status character varying, p_lane treadle.lane, p_start timestamp with time zone, p_now timestamp with time zone, p_limit bigint, p_until timestamp with time zone, p_least bigint) IS 'A part of count_depths(): counts again what may have changed in one lane, or among the jobs of a finished status. Returns how many it counted.';

COMMENT ON FUNCTION treadle.count_span(p_status character varying, p_lane treadle.lane, p_from timestamp with time zone, p_to timestamp with time zone, p_limit integer, OUT jobs bigint, OUT last timestamp with time zone) IS 'Counts up to p_limit jobs of a lane, or of a finished status, from p_from to before p_to. Jobs with the same time as the last one are counted, too, however many there are, so that the next span can begin after it.';

COMMENT ON FUNCTION treadle.count_statuses(p_most integer) IS 'How many jobs there are by status, and how many are blocked. Pending jobs: see find_depths().';

COMMENT ON FUNCTION treadle.decide_check(p_check bigint, p_ids uuid[], p_ended boolean, p_past uuid, p_limit integer) IS 'Decides about jobs that wait for others, or that others wait for: see dependency_checks. p_check is the row there, which is deleted, or keeps what is left; null at commit, when usually none is needed.';

COMMENT ON FUNCTION treadle.declare_limits(p_limits jsonb, p_settings jsonb) IS 'Declares the limits of a worker''s code, and the fairness and aging of its job types, when the worker starts and every minute: p_limits are objects with name, kind, per, amount, seconds, burst, when_full, digest, job_types and queues; p_settings, objects with job_type, fair_by, weights_of, aging_seconds, aging_share and digest. As with schedules, the version of the code that was seen first later is in force, and what no worker has declared for ten minutes is removed. What an operator has changed stays, unless the code has made it another kind of limit.';

COMMENT ON FUNCTION treadle.declare_schedules(p_schedules jsonb) IS 'Declares the schedules of a worker''s code, when it starts and every minute. Returns the names of those that are in force as declared. Name and digest are enough for those; a worker then declares the others in full.';

COMMENT ON FUNCTION treadle.delete_members(p_ids uuid[], p_limit integer) IS 'A part of prune_jobs(): deletes up to p_limit jobs of workflows that have ended, except those that have not, or that others wait for. Returns how many.';

CREATE TABLE treadle.ticks (
    xid xid8 NOT NULL,
    ticked_at timestamp with time zone NOT NULL,
    next_xid xid8 NOT NULL,
    running xid8[] NOT NULL,
    look_after timestamp with time zone NOT NULL,
    sweep_after timestamp with time zone NOT NULL,
    swept treadle.lane,
    examined bigint DEFAULT 0 NOT NULL,
    set_back_from timestamp with time zone,
    set_back_seen xid8,
    set_back_until xid8
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='50', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.ticks ALTER COLUMN xid SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN ticked_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN next_xid SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN running SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN look_after SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN sweep_after SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN swept SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN examined SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN set_back_from SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN set_back_seen SET STATISTICS 0;
ALTER TABLE ONLY treadle.ticks ALTER COLUMN set_back_until SET STATISTICS 0;

COMMENT ON TABLE treadle.ticks IS 'The last ticks: the transactions that ran at each of them may still commit jobs below a floor.';

COMMENT ON COLUMN treadle.ticks.next_xid IS 'Transactions with this id or a higher one may have started after the tick.';

COMMENT ON COLUMN treadle.ticks.running IS 'The older transactions that were running.';

COMMENT ON COLUMN treadle.ticks.look_after IS 'When a tick may next read the claimed jobs.';

COMMENT ON COLUMN treadle.ticks.sweep_after IS 'When a tick may next compare the first job of a lane with its floor.';

COMMENT ON COLUMN treadle.ticks.swept IS 'The lane for which that was done last.';

COMMENT ON COLUMN treadle.ticks.examined IS 'The last lane that was examined in turn; 0: the next tick begins with the first.';

COMMENT ON COLUMN treadle.ticks.set_back_from IS 'The clock before it was last set back: jobs up to this time were due then.';

COMMENT ON COLUMN treadle.ticks.set_back_seen IS 'The last tick before that.';

COMMENT ON COLUMN treadle.ticks.set_back_until IS 'Transactions with a lower id may have enqueued jobs by the clock before that.';

COMMENT ON FUNCTION treadle.delete_unused_lanes(p_oldest treadle.ticks, p_limit integer) IS 'A part of tick(): deletes dormant lanes without jobs that no running transaction has seen active, and returns how many. p_oldest is the newest tick that is older than every running transaction.';

COMMENT ON FUNCTION treadle.describe_end(p_id uuid, p_relation text) IS 'How a job ended, as a reason for another one. If it was itself stopped because of another one, how that one ended.';

COMMENT ON FUNCTION treadle.describe_once(p_reason text) IS 'Why a job failed whose attempt must not be repeated.';

COMMENT ON FUNCTION treadle.drop_belongings() IS 'Trigger: deletes the errors, events, log lines, steps, dependencies, workflows and uses of stored objects of deleted jobs. The row of a job says what it has, so a job that has nothing costs nothing. Stored objects that only these jobs used are swept later.';

COMMENT ON FUNCTION treadle.drop_oldest(p_name character varying, p_per character varying, p_key character varying, p_priority integer, p_count integer, p_kept uuid[]) IS 'Cancels the oldest waiting jobs that a limit is for: those of the lowest priority first, and none of a higher priority than p_priority. Not jobs that a claim has locked, nor those that wait for an earlier one of their key. Returns whether there were enough; otherwise none is cancelled.';

COMMENT ON FUNCTION treadle.edit_job(p_id uuid, p_arguments jsonb, p_retry boolean, p_actor text, p_reason text, p_act uuid, p_stored uuid[]) IS 'Changes arguments of a job that does not run: those that p_arguments names get these values. With p_retry, a job that has failed or was cancelled then runs again. Writes a row of the audit, which names the arguments. The job keeps its key and its unique key. Returns what operate() calls the outcome:';

COMMENT ON FUNCTION treadle.edited_partition(p_job treadle.jobs, p_arguments jsonb) IS 'The partition of a job when its arguments have these values. A partition that was given when it was enqueued stays.';

COMMENT ON FUNCTION treadle.end_signal(p_id uuid, p_value jsonb) IS 'Completes a job that waits for a signal.';

COMMENT ON FUNCTION treadle.end_workflows(p_ids uuid[]) IS 'Ends workflows all of whose jobs have ended, and whose rows are locked. A workflow is a job that no worker claims: it has completed, or failed if one of its jobs did not complete. If none of them was needed, neither was it. It stays held: if one of its jobs is retried, it waits again.';

COMMENT ON FUNCTION treadle.enqueue(p_job_type character varying, p_data jsonb, p_priority integer, p_queue character varying, p_run_at timestamp with time zone, p_delay interval, p_key character varying, p_max_attempts integer, p_partition jsonb, p_headers jsonb, p_alone boolean) IS 'Enqueues one job and returns its id, or null if max_pending is reached: select "treadle".enqueue(''welcome'', ''{"user_id": 7}'').';

COMMENT ON FUNCTION treadle.enqueue_jobs(p_job_type character varying, p_data text[], p_priority integer, p_queue character varying, p_run_at timestamp with time zone, p_delay interval, p_keys character varying[], p_max_attempts integer, p_partitions text[], p_headers jsonb) IS 'Enqueues one job per element of p_data (JSON texts) and returns their ids in that order; none if max_pending is reached.';

COMMENT ON FUNCTION treadle.enqueue_occurrences(p_due jsonb) IS 'Enqueues the jobs of schedules that are due, as a worker has computed them, and returns what was done for which schedule.';

COMMENT ON FUNCTION treadle.enqueue_per_period(p_job treadle.jobs, p_data text[], p_partitions character varying[], p_options treadle.enqueue_options) IS 'A part of enqueue_with_options(): enqueues as many jobs as each unique key allows per period, and returns the latest job for the others. Each key has per_period places; each job takes one for the length of the period. A call locks the first place of its keys, so there is one at a time for each key.';

COMMENT ON FUNCTION treadle.enqueue_schedule(p_schedule treadle.schedules, p_times timestamp with time zone[], p_missed timestamp with time zone[]) IS 'Enqueues the jobs of a schedule for these times, which come in order, and notes the times that were missed. Returns the number of jobs. A time is not enqueued again, not even after a dump was restored or the server''s clock was set back: the primary key of occurrences does not allow it.';

COMMENT ON FUNCTION treadle.enqueue_unique(p_job_type character varying, p_unique character varying, p_data jsonb, p_priority integer, p_queue character varying, p_run_at timestamp with time zone, p_delay interval, p_key character varying, p_max_attempts integer) IS 'Enqueues a job unless there is an unfinished one of its type with the same unique key; then returns the id of that one. If another transaction is just adding it, this call waits for that. enqueue_with_options() has more options.';

COMMENT ON FUNCTION treadle.enqueue_unless_exists(p_job treadle.jobs, p_data text[], p_partitions character varying[], p_options treadle.enqueue_options) IS 'A part of enqueue_with_options(): enqueues jobs whose unique key no other job has, until that one is finished or claimed, and returns or changes the others. The unique index of jobs makes sure of it; what is read before the INSERT only avoids waiting for transactions that are about to finish such a job.';

COMMENT ON FUNCTION treadle.enqueue_with_options(p_job_type character varying, p_data text[], p_options jsonb) IS 'Enqueues one job of a type for each element of p_data (JSON texts), with the options that enqueue_jobs() does not have: unique keys in all their forms, expiry, and what they wait for. Returns one row for each, in that order: the job, whether it is new, and whether an existing one was changed. No row if max_pending is reached.';

COMMENT ON FUNCTION treadle.enqueue_workflow(p_name character varying, p_blocks jsonb, p_options jsonb) IS 'Enqueues the jobs of a workflow in their order, and the workflow itself, which is a job that ends when all of them have ended. Returns their ids, at last that of the workflow.';

COMMENT ON FUNCTION treadle.expire_jobs(p_limit integer) IS 'Cancels jobs that no worker has claimed before they expired. Returns how many it has looked at. Workers call it every 10 seconds: a claim cancels only the expired jobs that it meets.';

COMMENT ON FUNCTION treadle.fail_job(p_id uuid, p_error text, p_delay interval, p_final boolean, p_lease bigint, p_worker_id character varying, p_traceback text) IS 'Records a failed attempt: the job is retried after p_delay (default: exponential), or fails if that was its last attempt or p_final is true. Returns false if the claim is lost or the job has finished already. Without a lease number any unfinished job can be failed, also one that is pending. Ends the attempt as settle_jobs() does.';

COMMENT ON FUNCTION treadle.fair_shares(p_fair character varying[], p_lanes treadle.lane_range[], p_due timestamp with time zone, p_wanted integer, p_lockers xid[], p_limited boolean, OUT picked treadle.lane_range[], OUT shares integer[]) IS 'The first step of a claim, as oldest_of_lanes(), for lanes whose values of an argument take turns (see type_settings): which lanes, and how many jobs of each. Without limits, no job is read for it, unless there are several job types that do not take turns: then each of them gets as many as it has among the oldest.';

COMMENT ON FUNCTION treadle.find_claimable(p_job_type character varying, p_queue character varying, p_worker_id character varying, p_search text, p_payloads boolean, p_from timestamp with time zone, p_priority integer, p_run_at timestamp with time zone, p_id uuid, p_limit integer, p_look integer, p_end timestamp with time zone, p_digits text, p_first uuid, p_last uuid, p_path text[], p_value jsonb, p_also jsonb) IS 'The claimable jobs that are due at p_from or later, in the order in which they will be claimed, for find_jobs(). Paused lanes are included.';

COMMENT ON FUNCTION treadle.find_claimed_jobs(p_worker_id character varying) IS 'The jobs that a worker has claimed.';

COMMENT ON FUNCTION treadle.find_depths(p_budget integer) IS 'How many jobs wait, by queue, type and priority; when the first is or was due, and whether they are paused. The lanes of different partitions are added up.';

COMMENT ON FUNCTION treadle.find_due_schedules(p_limit integer, p_declared character varying[]) IS 'Schedules that are due or have no time yet, and the next one. p_declared: of those in code, only the ones with these digests. Ordered as the index is, nulls first: otherwise all schedules would be read and sorted.';

COMMENT ON FUNCTION treadle.find_finished(p_ids uuid[]) IS 'Those of the jobs that have finished or no longer exist.';

COMMENT ON FUNCTION treadle.find_group_jobs(p_group_id integer, p_status character varying, p_at timestamp with time zone, p_id uuid, p_limit integer, p_look integer) IS 'The jobs whose last failure is in a group of errors, the latest first: those that have failed, or those that are pending. The page begins after the failure of p_id at p_at. At most p_look failures are examined: "last" marks where it stopped, and that job is part of the page only if it "fits".';

COMMENT ON FUNCTION treadle.find_ids(p_digits text, p_before uuid, p_limit integer, p_look integer, p_patience interval) IS 'Ids by their first or last digits: the last digits of a bounded number of the newest jobs.';

COMMENT ON FUNCTION treadle.find_jobs(p_status character varying, p_job_type character varying, p_queue character varying, p_worker_id character varying, p_key character varying, p_search text, p_exact uuid, p_rank integer, p_at timestamp with time zone, p_id uuid, p_limit integer, p_look integer, p_patience interval, p_since timestamp with time zone, p_until timestamp with time zone, p_path text[], p_value jsonb, p_payloads boolean, p_also jsonb) IS 'One page of a list of jobs: those that match, and with "last" where the search stopped. The cost does not grow with the table.';

COMMENT ON FUNCTION treadle.find_known_lanes(p_job_types character varying[], p_queues character varying[]) IS 'The lanes that a search reads, each from its floor on, the highest priority first: active and not paused. They are null if there are more than c_lanes, or if the floors cannot be trusted: then the search needs lanes_in_turn(). Also whether there are limits, and when the first job of a dormant lane is due.';

COMMENT ON FUNCTION treadle.find_lanes(p_budget integer) IS 'The lanes, deepest first: how many jobs wait in each, when the first is or was due, and whether the lane is paused. Counting stops when p_budget is used up: a lane whose depth equals counted_to has at least that many; see find_depths(). The settings fix the plan, as in claim_jobs.sql.';

COMMENT ON FUNCTION treadle.find_limits(p_name character varying, p_limit integer) IS 'The limits and their keys that are in use, changed or waited for, and fairness and aging: what is in force, what is in use, when the next job may start, and how many wait (counted up to counted_to). Those that jobs wait for come first. There is a row for each (for one with "per", the values for all keys, with a null key), and one for each key. At most p_limit rows; half of them are left to the limits themselves.';

COMMENT ON FUNCTION treadle.find_lost_claims(p_ids uuid[], p_leases bigint[]) IS 'Those of the claims that are lost, because the job was cancelled, recovered, finished or claimed again; and whether the job was completed under the claim.';

COMMENT ON FUNCTION treadle.find_unbegun(p_worker_id character varying, p_begun uuid[], p_here integer, p_in_children integer, p_seconds double precision) IS 'Of the jobs that a worker has claimed, the oldest that it should have begun: it was claimed p_seconds ago or longer, it is not among p_begun (those that the worker knows to have begun), and the worker has room for it. p_here of them run in the worker itself, and p_in_children in child processes. The process that renews the worker''s lease calls this while the worker begins no jobs.';

COMMENT ON FUNCTION treadle.find_workflow(p_id uuid, OUT id uuid, OUT has_ended boolean, OUT has_plan boolean, OUT member uuid) IS 'For enqueue_with_options(): the workflow with this id, or the one that this job is a part of (id is null if there is none). It cannot end before the transaction does. has_plan: it still has to add jobs by itself. member: the job by which it is a part of the workflow: itself; or a job that it replaces, unless it is one of a group in that one''s place.';

COMMENT ON FUNCTION treadle.finish_step(p_id uuid, p_position integer, p_name character varying, p_result jsonb, p_lease bigint, p_worker_id character varying) IS 'Records that a step of a job is finished, with its result. Returns false if the claim is lost. Calling it twice, as after a lost reply, records it once.';

COMMENT ON FUNCTION treadle.flag_counting() IS 'The bit of jobs.flags that says: when this job ends, job_ended() counts it for its workflow.';

COMMENT ON FUNCTION treadle.flag_dependencies() IS 'The bit of jobs.flags that says: this job waits for others, or did.';

COMMENT ON FUNCTION treadle.flag_events() IS 'The bit of jobs.flags that says: this job has events.';

COMMENT ON FUNCTION treadle.flag_inputs() IS 'The bit of jobs.flags that says: results of other jobs are arguments of this one.';

COMMENT ON FUNCTION treadle.flag_limited() IS 'The bit of jobs.flags that says: this job was claimed under a limit.';

COMMENT ON FUNCTION treadle.flag_logs() IS 'The bit of jobs.flags that says: this job has log lines.';

COMMENT ON FUNCTION treadle.flag_member() IS 'The bit of jobs.flags that says: this job is part of a workflow.';

COMMENT ON FUNCTION treadle.flag_once() IS 'The bit of jobs.flags that says: the attempt that runs must not be repeated if its process dies.';

COMMENT ON FUNCTION treadle.flag_opening() IS 'The bit of jobs.flags that says: when this job ends, job_ended() notes that its limits may have room.';

COMMENT ON FUNCTION treadle.flag_signal() IS 'The bit of jobs.flags that says: this job waits for a signal, and no worker runs it.';

COMMENT ON FUNCTION treadle.flag_skipped() IS 'The bit of jobs.flags that says: this job was cancelled because it was not needed.';

COMMENT ON FUNCTION treadle.flag_steps() IS 'The bit of jobs.flags that says: this job has steps.';

COMMENT ON FUNCTION treadle.flag_watched() IS 'The bit of jobs.flags that says: jobs wait for the end of this one.';

COMMENT ON FUNCTION treadle.flag_workflow() IS 'The bit of jobs.flags that says: this job is a workflow, and ends when all of its jobs have ended.';

COMMENT ON FUNCTION treadle.forget_limit(p_name character varying) IS 'Deletes what belongs to a limit that was deleted.';

COMMENT ON FUNCTION treadle.forget_limit_keys(p_now timestamp with time zone) IS 'A part of tick(): deletes the keys of limits that no job uses any more, of a sample; and ended jobs that no claim has listed.';

COMMENT ON FUNCTION treadle.forget_other_server() IS 'Removes the transaction ids that come from the dump of another server: a tick from the future shows that such a dump was restored. Those of events give the order in which app.events() returns them, and hide those that a running transaction might precede. Ids that this server has not reached would hide them for years, so restored events come first.';

COMMENT ON FUNCTION treadle.forget_ticks(p_oldest treadle.ticks) IS 'A part of tick(): deletes ticks and floors that no running transaction needs. p_oldest is the newest tick that is older than every running transaction.';

COMMENT ON FUNCTION treadle.free_waiting(p_ids uuid[]) IS 'Lets jobs run that waited for others, whose rows are locked. They are due from now on, in the order of their ids, and get the results that are their arguments; those of jobs that did not complete are null. There may be a hundred thousand of them: what the trigger change_job would do for each is done here for all.';

COMMENT ON FUNCTION treadle.group_errors(p_lag interval, p_limit integer, p_late interval, p_pause interval) IS 'Counts the attempts that failed since the last call by job type, exception and message, in "treadle".error_groups. Returns how many, and whether there are more. Workers call it every few seconds: the cost is that of the failures, and a job that completes costs nothing.';

COMMENT ON FUNCTION treadle.group_errors_between(p_from timestamp with time zone, p_to timestamp with time zone, p_limit integer, p_most integer, OUT counted integer, OUT reached timestamp with time zone) IS 'Counts the failed attempts of a span of time, by group, that are not counted yet. Returns how many, and up to when: all of the span, or less if more than p_limit attempts failed in it.';

COMMENT ON FUNCTION treadle.has_attempts_left(p_attempts integer, p_max_attempts integer) IS 'Whether a job may be attempted again.';

COMMENT ON FUNCTION treadle.has_begun_once(p_status character varying, p_flags smallint) IS 'Whether an attempt has begun that must not be repeated. While a job waits, the bit is left over from an earlier one.';

COMMENT ON FUNCTION treadle.has_digits(p_id uuid, p_digits text) IS 'Whether an id begins or ends with these digits.';

COMMENT ON FUNCTION treadle.has_payload_index(p_path text[]) IS 'Whether an index for searches by this path in payloads exists and may be used.';

COMMENT ON FUNCTION treadle.has_room(p_name character varying, p_key character varying, p_now timestamp with time zone) IS 'Whether a limit has room for one more job. Without a lock: the room may be gone when a claim looks. If there is no such limit any more, there is room.';

COMMENT ON FUNCTION treadle.has_status(p_wanted character varying, p_status character varying, p_holds smallint, p_run_at timestamp with time zone) IS 'Whether a job has a status as find_jobs() knows them: with blocked and later, and pending only if nothing blocks it. Null: any. The planner inlines this function.';

COMMENT ON FUNCTION treadle.has_values(p_data jsonb, p_conditions jsonb) IS 'Whether a payload has all of these values, for find_jobs(). p_conditions is an array such as [{"path": ["order"], "value": "ORD-1999"}, {"path": ["note"]}]. Without a value, there must be any.';

COMMENT ON FUNCTION treadle.heartbeat(p_worker_id character varying) IS 'Records that a worker is alive. Its jobs are not stale while it calls this often enough.';

COMMENT ON FUNCTION treadle.hold_slots(p_now timestamp with time zone, p_ids uuid[], p_lanes treadle.lane[], p_limited integer[], p_limits integer[], p_names character varying[], p_keys character varying[], p_room integer[]) IS 'Adds the claimed jobs to those that use the limits, which lock_limits() has locked (room is -1 for one that it has not). Lanes that wait for a limit that still has room are searched again by the next claims.';

COMMENT ON FUNCTION treadle.id_after(p_id uuid, p_earlier uuid) IS 'The new id p_id, or one that is higher than p_earlier if the clock was set back since: jobs with a key are ordered by their ids, which contain the time. It continues from the earlier id: its time, and a quarter of a microsecond. Only for an id that the server has just made: one that was given with the job is not changed.';

COMMENT ON FUNCTION treadle.id_at(p_moment timestamp with time zone) IS 'The first id that new_id() could make at this time: ids begin with their time in milliseconds.';

COMMENT ON FUNCTION treadle.id_digits(p_search text) IS 'The digits of a search text that may be the first or the last ones of an id; null if it cannot be that. Fewer than 8 would also match ids of other jobs by chance.';

COMMENT ON FUNCTION treadle.insert_jobs(p_job treadle.jobs, p_data text[], p_keys character varying[], p_partitions character varying[], p_nths integer[], p_unique character varying[]) IS 'Inserts jobs, all but those of enqueue(). p_job has what they have in common; p_nths says which elements of p_data are meant, and p_unique has a unique key for each of them. Without unique keys, returns the ids in the order of the list. Jobs whose unique key another job has are left out; if that one is just being added, this waits for its transaction.';

COMMENT ON FUNCTION treadle.is_blocked_by_key(p_holds smallint) IS 'Whether a job waits for an earlier job with the same key.';

COMMENT ON FUNCTION treadle.is_child_free_elsewhere(p_worker_id character varying, p_job_types character varying[], p_queues character varying[]) IS 'Whether another live worker that serves one of these job types and queues has a free child process: for a worker that has claimed jobs that must run in one (decision 25), and has none. It offers them to the others only then.';

COMMENT ON FUNCTION treadle.is_claimable(p_status character varying, p_holds smallint, p_attempts integer, p_max_attempts integer) IS 'Whether a worker may claim a job once it is due: it is pending, nothing blocks it, and it has attempts left. Every other condition that blocks a job (a key, other jobs, a signal) is a bit of jobs.holds, so a new rule does not change this.';

COMMENT ON FUNCTION treadle.is_head_of_key(p_key character varying, p_id uuid) IS 'Whether a job is the next to run of those with its key: no job with the key runs, and none that waits for its turn is older. Blocked jobs do not count: they are younger, or were enqueued in a transaction that overlapped with this one (see decision 6).';

COMMENT ON FUNCTION treadle.is_in_lane(p_queue character varying, p_job_type character varying, p_priority integer, p_partition character varying, p_lane treadle.lane) IS 'Whether a job, or a row of lanes, with this queue, job type, priority and partition belongs to a lane. What identifies a lane is the type "treadle".lane; jobs, lanes and floors have its fields as columns. The planner inlines this function, and each comparison becomes a condition of that index.';

COMMENT ON FUNCTION treadle.is_listed(p_dormant_xid xid8, p_limit_name character varying) IS 'Whether claims find the jobs that arrive in a lane without another row of it: it is active, or waits for a limit. The planner inlines this function.';

COMMENT ON FUNCTION treadle.is_muted(p_muted_at timestamp with time zone, p_muted_until timestamp with time zone) IS 'Whether a group of errors is muted now.';

COMMENT ON FUNCTION treadle.is_read_committed() IS 'Whether the transaction is READ COMMITTED: only then does each of its statements see what other transactions have just committed.';

COMMENT ON FUNCTION treadle.is_requested(p_until regclass) IS 'Whether a session waits for jobs to finish ("treadle".awaited), or watches their events and progress ("treadle".watched): see request_notifications(). The planner inlines this function. It reads the sequence without a query: every end of a job and every report of a worker asks.';

COMMENT ON FUNCTION treadle.is_satisfied(p_needs character varying, p_outcome character varying) IS 'Whether a job that has ended like this is what another one waits for. p_outcome as outcome_of() returns it; null for a job that was deleted.';

COMMENT ON FUNCTION treadle.is_waiting(p_status character varying, p_holds smallint) IS 'Whether a job waits for other jobs.';

COMMENT ON FUNCTION treadle.job_ended() IS 'Trigger: when a job has ended, was given back, retried or deleted, does what follows for its limits, its workflow, jobs that wait for it and its key.';

COMMENT ON FUNCTION treadle.job_events(p_id uuid, p_number integer, p_lease bigint, p_phase integer, p_limit integer) IS 'The events of a job after a position, in order, with the transitions of the job among them. Transitions are derived from the other tables; no row is written for them.';

COMMENT ON FUNCTION treadle.job_status(p_id uuid) IS 'The status of a job as of now; null if there is none. A volatile function sees what was committed while the statement that calls it waited for the job''s row.';

COMMENT ON FUNCTION treadle.jobs_ahead(p_id uuid, p_limit integer) IS 'How many jobs the live workers that serve this one would claim before it, if it were claimable now: in its own lane, in the other lanes of its priority, and in lanes of higher priority. Counting stops one past p_limit in all.';

COMMENT ON FUNCTION treadle.keep_depth(p_status character varying, p_lane treadle.lane, p_starts_at timestamp with time zone, p_jobs bigint, p_counted_at timestamp with time zone, p_always boolean) IS 'Writes how many jobs a segment of a lane, or of a finished status, has. A part of count_segments(). What has not changed is written only every 10 seconds, unless p_always: while a snapshot is open, PostgreSQL cannot remove the former versions of the row.';

COMMENT ON FUNCTION treadle.keep_logs(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_owners integer[], p_sequences integer[], p_levels integer[], p_loggers text[], p_messages text[], p_ages double precision[], p_head integer, p_tail integer) IS 'Writes the log lines of a worker''s jobs, fenced by their lease numbers. Of each job the first p_head and the last p_tail lines are kept. Returns the ids of the jobs that were accepted.';

COMMENT ON FUNCTION treadle.keep_worker() IS 'Trigger: keeps the row of a worker with a lease while it has jobs: recovery needs it to know that the worker had a lease, and when it was last renewed.';

COMMENT ON FUNCTION treadle.kept_depth(p_status character varying, p_lane treadle.lane) IS 'How many jobs a lane has, or there are of a status that is not pending, as workers counted them last. The planner inlines this function. No row: nobody keeps it. If counted_at is null, not all of them were counted yet.';

COMMENT ON FUNCTION treadle.key_head(p_key character varying) IS 'The first unfinished job with this key: one that runs, else the oldest that waits for its turn, else the oldest that is blocked. One step in idx_jobs_key. The planner inlines this function.';

COMMENT ON FUNCTION treadle.key_rank(p_status character varying, p_holds smallint) IS 'The rank of an unfinished job among those with its key: 0 running, 1 next to run, 2 blocked.';

COMMENT ON FUNCTION treadle.lane_after(p_lane treadle.lane, p_lockers xid[], OUT queue character varying, OUT job_type character varying, OUT priority integer, OUT partition character varying, OUT run_at timestamp with time zone) IS 'The next lane with claimable jobs after p_lane (null: the first), in the order of idx_jobs_claimable, and the time of its first job; null after the last.';

COMMENT ON FUNCTION treadle.lane_entry(p_lane treadle.lane, p_run_at timestamp with time zone) IS 'For a job that enters a lane: the floor, if there is one, and whether claims will search the lane when the job is due.';

COMMENT ON FUNCTION treadle.lane_floor(p_lane treadle.lane) IS 'The floor of a lane; no row: every job must be searched. The planner inlines this function. The newest floor comes first in idx_floors_lane, so that floors which an open snapshot keeps from being removed are not read.';

COMMENT ON FUNCTION treadle.lane_head(p_lane treadle.lane, p_start timestamp with time zone) IS 'The first of the claimable jobs of a lane that are due at p_start or later. The planner inlines this function.';

COMMENT ON FUNCTION treadle.lane_jobs(p_lane treadle.lane, p_start timestamp with time zone) IS 'The claimable jobs of a lane that are due at p_start or later: one range of idx_jobs_claimable. The planner inlines this function, so the columns that the caller does not use cost nothing. It returns only columns that a viewer may read. Claims do not use it: rows cannot be locked through a function.';

COMMENT ON FUNCTION treadle.lanes_in_turn(p_job_types character varying[], p_queues character varying[], p_safe treadle.ticks, p_lanes integer, INOUT level bigint, INOUT first integer, INOUT turn bigint, INOUT step integer, INOUT place bigint, OUT lanes treadle.lane_range[], OUT ids bigint[]) IS 'The lanes that a claim searches next: active and not paused, of the highest priority first, up to p_lanes of one priority, with the time at which the search of each starts.';

COMMENT ON FUNCTION treadle.lanes_to_display(p_safe treadle.ticks, p_limit integer) IS 'The lanes for display, and where to start to count the jobs of each. If there are more than p_limit, those that were used last: to find the deepest, all would have to be counted. The planner inlines this function.';

COMMENT ON FUNCTION treadle.lanes_to_search(p_safe treadle.ticks) IS 'Every lane that may have jobs, once, and where to start to search it: at a floor that is safe (see safe_floor), so that jobs which were committed late are found. Lanes that are dormant and have no jobs are left out: they are about to be deleted. The planner inlines this function.';

COMMENT ON FUNCTION treadle.lanes_with_room(p_job_types character varying[], p_queues character varying[], p_now timestamp with time zone) IS 'The dormant lanes that a claim searches: those of limits that may have room now (see limit_openings), of each job type up to c_lanes. If more wait for a limit, they take turns. An opening older than c_recent is left to review_limits().';

COMMENT ON FUNCTION treadle.lease_era() IS 'The number that the lease numbers of this server exceed: a billion for each promotion that it has seen. A standby that is promoted may lack the last claims of its primary. Its timeline is a new one, so the numbers that it gives are higher. 0 if the server has no timelines: then it loses no claims, either (Amazon Aurora).';

COMMENT ON FUNCTION treadle.limit_key(p_per character varying, p_partition character varying) IS 'The value of a part of a partition; empty if it has none.';

COMMENT ON FUNCTION treadle.limit_lanes(p_name character varying, p_per character varying, p_key character varying) IS 'The lanes of the jobs that a limit is for, or of one value of its "per". Those of a value are looked up where all partitions of a job type have the same single part; else all lanes of the type are compared.';

COMMENT ON FUNCTION treadle.limit_room(p_name character varying, p_key character varying, p_wanted bigint, p_now timestamp with time zone) IS 'What is in force for a key of a limit, which jobs use it, and how much room it has: the rule for all who ask. It locks nothing: see lock_limits().';

COMMENT ON FUNCTION treadle.limit_state(p_name character varying, p_key character varying, p_weight integer, p_now timestamp with time zone, OUT kind character varying, OUT amount integer, OUT period interval, OUT burst integer, OUT in_use bigint, OUT running bigint, OUT available integer, OUT opens_at timestamp with time zone, OUT frees_at timestamp with time zone, OUT for_key boolean, OUT changed_by text, OUT changed_at timestamp with time zone) IS 'How much of a limit is in use, and when the next job of weight p_weight may start: for find_limits() and treadle why. With p_key null, only the values that hold for every key.';

COMMENT ON FUNCTION treadle.limit_statuses(p_names character varying[], p_keys character varying[]) IS 'The state of limits, and of fairness and aging, for display: of p_names, each for the element of p_keys (see limit_state()), those that jobs wait for first. The jobs that wait are counted up to an equal share of c_budget, counted_to: a row whose number equals it has at least that many.';

COMMENT ON FUNCTION treadle.limits_and_settings() IS 'What operators see and change under a name: limits, and the fairness and aging of job types. Jobs of the given types have a setting; of limits, limit_targets says that. The planner inlines this function.';

COMMENT ON FUNCTION treadle.limits_of(p_queue character varying, p_job_type character varying, p_partition character varying) IS 'The limits of a lane, or of a job, that decide when it starts, each with the value of its "per". The planner inlines this function.';

COMMENT ON FUNCTION treadle.limits_of_job(p_queue character varying, p_job_type character varying, p_partition character varying, p_data jsonb) IS 'The limits of a job that was not claimed under them, and may have been enqueued before they were declared: where its partition lacks the value of "per", its payload is asked. The planner inlines this function.';

COMMENT ON FUNCTION treadle.list_jobs(p_names character varying[], p_keys character varying[], p_locked integer[]) IS 'A part of lock_limits(): jobs that use these limits without having been claimed under them (unlisted_jobs) are moved to limit_holders. For a rate, they count as started when they were noted.';

COMMENT ON FUNCTION treadle.list_running_jobs() IS 'A part of lock_limits(): notes the jobs that are claimed or running under limits that are new, or whose kind, "per" or jobs have changed (unlisted_limits), so that they count. Returns the limits of which that is not yet possible: they give no room.';

COMMENT ON FUNCTION treadle.lock_claimed(p_worker_id character varying, p_ids uuid[], p_leases bigint[]) IS 'Locks those of the jobs that are still claimed by the worker under these lease numbers, and returns their ids. Until the transaction ends, no other transaction can claim or finish them. Functions that write the records of a worker''s jobs call it first.';

COMMENT ON FUNCTION treadle.lock_limit_keys(p_names character varying[], p_keys character varying[], p_wait boolean) IS 'Locks the rows of these limits, as far as no other claim has locked them, and says which: their numbers in the lists. If all are locked, and p_wait says so, it waits for a moment: claims are short.';

COMMENT ON FUNCTION treadle.lock_limits(p_now timestamp with time zone, p_lanes treadle.lane[], p_wait boolean, INOUT shares integer[], OUT lanes integer[], OUT limits integer[], OUT names character varying[], OUT keys character varying[], OUT room integer[], OUT enough boolean) IS 'Locks the limits of lanes that a claim is about to take jobs from, and says how many jobs of each they allow at most. A part of claim_lanes().';

COMMENT ON FUNCTION treadle.lock_unblocked(p_key character varying) IS 'Locks a job with this key that is unfinished and not blocked, without waiting. Returns whether there is one. A part of confirm_blocked(): the transaction that finishes the locked job waits for this one.';

COMMENT ON FUNCTION treadle.make_dormant(p_ids bigint[], p_now timestamp with time zone) IS 'Makes those of these lanes dormant that have had no due jobs for some time, for a claim that has searched many lanes for nothing: thousands of lanes can run empty between two ticks. A transaction that saw one of them active, and commits a job later, is found by the next tick: it examines every lane that became dormant in a transaction that has ended since the last one, or that others which have ended since may not have seen.';

COMMENT ON FUNCTION treadle.make_room(p_job_type character varying, p_queue character varying, p_priority integer, p_partitions character varying[], p_added uuid[]) IS 'Whether jobs with these partitions may be enqueued, as far as max_pending is concerned. Where the oldest jobs are to be dropped, it drops them, but none of a higher priority.';

COMMENT ON FUNCTION treadle.mark_claimed(p_worker_id character varying, p_now timestamp with time zone, p_places tid[], p_keyed boolean, p_flags smallint) IS 'The write of a claim, for rows that it has locked. Nothing else changes the lease number. Jobs that have expired are cancelled instead. From its claim on, a job no longer expires, and a unique key that it has while it is pending is free for the next job.';

COMMENT ON FUNCTION treadle.move_due_jobs(p_from timestamp with time zone, p_seen xid8, p_now timestamp with time zone, p_shift boolean, p_late boolean, p_limit integer) IS 'After the clock was set back: moves jobs that were due before, and would now be due later, to the current time. They keep their order, and stay behind those that have been due for longer. A part of tick().';

COMMENT ON FUNCTION treadle.move_epoch() IS 'Trigger: after a lane was made dormant, or an active one deleted, by whatever statement: sessions that have seen it active look it up again (see register_lanes.sql).';

COMMENT ON FUNCTION treadle.move_to_partitions(p_job_type character varying) IS 'After a limit was added: gives jobs of a type that have no partition the one that their limits need, 10,000 at most. Returns how many. Those that are left count as jobs without a value, until this is called again (every minute, if the limit is declared in code) or they are claimed.';

COMMENT ON FUNCTION treadle.mute_errors(p_group_id integer, p_muted boolean, p_for interval, p_until_new_version boolean, p_actor text, p_reason text) IS 'Mutes a group of errors, or with p_muted false ends that. A muted group is still counted and shown, but is no alarm. It lasts until somebody ends it, or for p_for, or until a version of the application fails that has not failed in this group and does not run yet. Returns done; unchanged, if it is not muted; or missing. Runs with the rights of its owner: a group cannot be muted without an audit row.';

COMMENT ON FUNCTION treadle.next_due(p_job_types character varying[], p_queues character varying[], p_sure boolean, p_answered bigint, p_known treadle.known_lanes) IS 'For a worker that found no job: requests a notification of new jobs, then searches once more, and returns the seconds until the next job of these types is due (0 or less: now), null if there is none. In this order, so that no job can arrive unnoticed between the two.';

COMMENT ON FUNCTION treadle.next_opening(p_job_types character varying[], p_queues character varying[]) IS 'When a limit may have room for the first job that waits for it; null: no job waits for one.';

COMMENT ON FUNCTION treadle.next_wake_after(p_job_types character varying[], p_queues character varying[], p_from timestamp with time zone) IS 'When a dormant lane of these job types wakes, not before p_from. Few are read: if none of those is of these job types, it is the time of the last one, and the worker asks again then.';

COMMENT ON FUNCTION treadle.next_work(p_worker_id character varying, p_job_types character varying[], p_queues character varying[], p_declared character varying[]) IS 'For a worker that sleeps (decision 53), which calls it once a minute: the seconds until there is something to do (0 or less: now); null: nothing is known. Unlike next_due(), it makes no tick and writes nothing.';

COMMENT ON FUNCTION treadle.normalise_error(p_error text, p_worker_id text, OUT exception text, OUT message text) IS 'Splits the text of an error into the class of the exception and the message, and replaces what differs from one failure to the next: two messages that differ in an id are one group.';

COMMENT ON FUNCTION treadle.note_clock_jump(p_before timestamp with time zone, p_after timestamp with time zone) IS 'Notes that the server''s clock shows p_after where it should show p_before. Returns false if that was noted already; if two do so at the same time, both rows do no harm: see clock_before().';

COMMENT ON FUNCTION treadle.note_dependency_check(p_ids uuid[], p_ended boolean, p_past uuid, p_later boolean) IS 'Decides at commit, or later, what these jobs wait for; or, if they have ended, what that means for those that wait for them. In several rows, so that each is decided in a short time. Runs with the rights of its owner: whoever ends a job may not know which others wait for it.';

COMMENT ON FUNCTION treadle.note_lane_change() IS 'Trigger: at commit of a transaction that has made a lane active, paused or resumed one, or added or removed a limit: sessions that keep their lanes between claims read them again (find_known_lanes). At commit, so that it is visible a moment later.';

COMMENT ON FUNCTION treadle.note_member_changes(p_ids uuid[], p_old character varying, p_new character varying) IS 'Notes for the counts of workflows that these of their jobs have ended, or were retried: one row for each workflow. p_old and p_new as outcome_of() returns them; null for jobs that were deleted before they ended.';

COMMENT ON FUNCTION treadle.note_openings(p_lanes treadle.lane[]) IS 'After jobs of these lanes that were claimed under a limit have ended, were given back or deleted: wakes a worker, if lanes are waiting for the limit. (What a claim is just writing may not be visible yet: see wait_for_limits.sql.)';

COMMENT ON FUNCTION treadle.note_tick() IS 'Trigger: at commit, notes that a tick was made.';

COMMENT ON FUNCTION treadle.note_unlisted_limit() IS 'Trigger: jobs may run under a limit that is new, or whose kind, "per" or jobs have changed: the next claim lists them. See parts/list_running_jobs.sql.';

COMMENT ON FUNCTION treadle.notify_at_commit() IS 'Trigger: at commit of a transaction that called wake_workers(), which says why, notifies an idle worker if one wants to be notified. Runs with the rights of its owner: at commit, the current role may be any.';

COMMENT ON FUNCTION treadle.oldest_of_lanes(p_lanes treadle.lane_range[], p_due timestamp with time zone, p_wanted integer, p_lockers xid[], OUT picked treadle.lane_range[], OUT shares integer[], OUT jobs integer, OUT per_lane integer) IS 'Of lanes of one priority: which have the oldest p_wanted jobs, from when on, and how many of them. It locks nothing. A part of claims, whose settings fix the plan. It reads a few jobs of each lane, then more of those lanes only that can have more of the oldest: jobs are often enqueued in bursts.';

COMMENT ON FUNCTION treadle.operate(p_action character varying, p_ids uuid[], p_actor text, p_reason text, p_priority integer, p_act uuid, p_continues boolean) IS 'Changes jobs for an operator: retry, cancel, delete, run_now or priority. Each change writes a row of the audit in the same transaction. Returns the outcome for each job, and the status that it had.';

COMMENT ON FUNCTION treadle.operate_schedule(p_action character varying, p_name character varying, p_actor text, p_reason text) IS 'Changes a schedule for an operator: pause, resume, run (enqueue a job now, besides its times) or delete. Returns done; unchanged, if it is paused already, or not paused, or its jobs are unique and there is one; missing; or declared: remove it from the code, or pause it. Runs with the rights of its owner: a schedule cannot be changed without an audit row.';

COMMENT ON FUNCTION treadle.outcome_of(p_status character varying, p_flags smallint) IS 'The status of a job; skipped if it was cancelled because it was not needed.';

COMMENT ON FUNCTION treadle.partition_of(p_parts character varying[], p_data jsonb, p_given jsonb) IS 'The partition of a job: the values of these arguments, or those that are given instead.';

COMMENT ON FUNCTION treadle.partition_parts(p_job_type character varying, p_queue character varying) IS 'By which arguments the limits and the fairness of a job type and queue tell jobs apart; null if they have none. An empty table is read without touching a page.';

COMMENT ON FUNCTION treadle.partitions_of(p_job_type character varying, p_queue character varying, p_data text[], p_given text[]) IS 'The partitions of jobs that are to be enqueued, one for each of p_data; null if no limit or fairness is for these jobs, and no partition is given.';

COMMENT ON FUNCTION treadle.pause(p_job_type character varying, p_queue character varying, p_actor text, p_reason text) IS 'Stops claims of this job type in this queue (null: any). Claimed jobs continue. Returns false if it was paused already. Runs with the rights of its owner: nothing is paused without an audit row.';

CREATE TABLE treadle.pauses (
    job_type character varying(50) DEFAULT ''::character varying NOT NULL,
    queue character varying(50) DEFAULT ''::character varying NOT NULL,
    paused_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    paused_by text,
    reason text
);
ALTER TABLE ONLY treadle.pauses ALTER COLUMN job_type SET STATISTICS 0;
ALTER TABLE ONLY treadle.pauses ALTER COLUMN queue SET STATISTICS 0;
ALTER TABLE ONLY treadle.pauses ALTER COLUMN paused_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.pauses ALTER COLUMN paused_by SET STATISTICS 0;
ALTER TABLE ONLY treadle.pauses ALTER COLUMN reason SET STATISTICS 0;

COMMENT ON TABLE treadle.pauses IS 'What is not claimed for now: a job type, a queue, a job type in a queue, or (both empty) everything.';

COMMENT ON FUNCTION treadle.pauses_of(p_job_type character varying, p_queue character varying) IS 'The pauses that keep jobs of this type in this queue from being claimed. The planner inlines this function.';

COMMENT ON FUNCTION treadle.prepare_job() IS 'Trigger: sets run_at of a job inserted without one, blocks a job behind an earlier one with its key, and sets finished_at. The partition must be valid: a tick or a claim that read another one would fail. (That of a lane is checked, too, but a session can pretend that the lane is listed.)';

COMMENT ON FUNCTION treadle.prepare_lanes(p_job_types character varying[], p_sure boolean) IS 'Makes sure that a search of the active lanes of these job types finds every job. Called before a search, if the last tick is not recent. Active lanes and floors are right if a tick has just looked for jobs that were committed late. So the search makes the tick itself, if it can: a program that only claims needs no other process that ticks. Otherwise, and if p_sure, the search must start at floors that are safe, and lanes that have become dormant meanwhile are active again.';

COMMENT ON FUNCTION treadle.prune_error_groups(p_keep interval, p_limit integer) IS 'Deletes groups of errors that were not seen for p_keep. Returns how many. Workers call it every minute. It deletes at most p_limit rows of grouped_errors; later calls delete the rest.';

COMMENT ON FUNCTION treadle.prune_jobs(p_status character varying, p_age interval, p_limit integer, p_after timestamp with time zone, OUT pruned integer, OUT reached timestamp with time zone) IS 'Deletes up to p_limit jobs that finished with p_status more than p_age ago. With p_after null, goes on where the last such call stopped. Returns how many, and the time that it reached: pass it as p_after of the next call, which then skips the dead index entries of this one.';

COMMENT ON FUNCTION treadle.prune_schedules(p_limit integer) IS 'Deletes schedules that were retired a month ago, and the record of times that are a month old. Returns the number of times.';

COMMENT ON FUNCTION treadle.prune_unique_periods(p_limit integer) IS 'Forgets the periods of unique keys that are over. Returns how many.';

COMMENT ON FUNCTION treadle.put_schedule(p_name character varying, p_job_type character varying, p_expression character varying, p_data jsonb, p_timezone character varying, p_options jsonb, p_exists boolean, p_actor text, p_reason text) IS 'Adds a schedule, or changes one that was added with this function. Workers enqueue its jobs. Returns done, exists, missing, or declared (in code: change the code, or pause the schedule). p_options has the other columns:';

COMMENT ON FUNCTION treadle.raise_floors(p_now timestamp with time zone, p_running xid[], p_lanes treadle.lane_range[]) IS 'Raises the floors of these lanes to their first jobs, for a claim that has read many dead entries: thousands of jobs can be claimed between two ticks. Whatever this passes over (a job that commits now, a row that is locked) is found by the next tick: it searches below every floor whose transaction, or any other, has ended since the last one. See public/tick.sql.';

COMMENT ON FUNCTION treadle.recent_lockers() IS 'The transactions that may currently have locked a row: those that the snapshot lists as running, and the next ids, because a snapshot does not list the newest transactions. Not the current transaction: it may have locked jobs that did not fit into a limit. (In SQL, it would be planned again in every transaction.)';

COMMENT ON FUNCTION treadle.record_event(p_id uuid, p_name character varying, p_data jsonb, p_lease bigint, p_worker_id character varying) IS 'Adds an event to a job, with the next number: from its worker (with the lease number), or from any session (without). Returns false if the claim is lost or there is no such job.';

COMMENT ON FUNCTION treadle.record_events(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_owners integer[], p_sequences integer[], p_names character varying[], p_data text[], p_ages double precision[]) IS 'Writes the events of a worker''s handlers, of many jobs in one statement, each fenced by its lease number. p_owners says to which of the jobs an event belongs. Returns the ids of the jobs that were accepted.';

COMMENT ON FUNCTION treadle.recount_workflow(p_id uuid) IS 'Counts the jobs of a workflow again, after they were changed while triggers were off, at any time. Returns false if there is no such workflow. Of a job that was deleted, nobody knows how it ended: if the counts have not included it so far, it counts as cancelled.';

COMMENT ON FUNCTION treadle.recover_lost_workers(p_crash_limit integer, p_now timestamp with time zone, p_watched interval) IS 'Gives back the jobs of workers whose lease has expired, and returns them. One call at a time does the work. Workers without a lease, which send heartbeats by hand, are left to recover_stale_jobs().';

COMMENT ON FUNCTION treadle.recover_stale_jobs(p_timeout interval, p_now timestamp with time zone) IS 'Gives back the jobs of workers that sent neither a heartbeat (workers.seen_at) nor a report about the job (jobs.seen_at) for p_timeout; those without attempts left fail. Returns how many. If there never was a sign, the age of the claim counts. A sign from the future is from before the clock was set back: if there is no other, the time of that jump counts.';

COMMENT ON FUNCTION treadle.recover_unregistered(p_timeout interval, p_crash_limit integer, p_now timestamp with time zone) IS 'Gives back the jobs of clients that are not registered as workers, if there was no sign of them for p_timeout: neither the claim itself, nor a start, nor progress. Such a client may still be working, so the time is long; recover_stale_jobs() is for whoever knows a shorter one. It also finds the jobs of a worker whose row is missing after a restore. Workers call it once a minute.';

COMMENT ON FUNCTION treadle.recover_worker(p_worker_id character varying, p_reason text, p_crashed uuid[], p_overdue uuid[], p_crash_limit integer, p_keep boolean) IS 'Gives back the jobs that a dead worker had claimed: p_crashed count as crashed (null: those that were running count as lost), p_overdue as failed attempts, the rest as neither. Those whose attempt must not be repeated fail. Returns the jobs with their new status.';

COMMENT ON FUNCTION treadle.register_lanes() IS 'Trigger: after jobs were inserted, makes sure that their lanes are listed, and that no job lies where no claim would find it.';

COMMENT ON FUNCTION treadle.register_worker(p_worker_id character varying, p_lease interval, p_job_types character varying[], p_queues character varying[], p_concurrency integer, p_host text, p_pid integer, p_version text, p_process_types character varying[], p_children integer, p_handlers text[]) IS 'Registers a worker that starts, and gives back the jobs of an earlier one of this name, which the new one does not know. If it does not renew its lease within p_lease, other workers get its jobs. The same process (host and pid) may register again, and keeps its jobs.';

COMMENT ON FUNCTION treadle.release_job(p_id uuid, p_delay interval, p_lease bigint, p_worker_id character varying) IS 'Gives a claimed job back without using an attempt: to its old place, or due after p_delay. Returns false if the claim is lost. Checks the fence, then ends the attempt as settle_jobs() does.';

COMMENT ON FUNCTION treadle.renew_workers(p_worker_ids character varying[], p_lease interval, p_asleep boolean) IS 'Renews the leases of workers; call it again before p_lease has passed. p_asleep: they have a long lease and no jobs, and renew it with p_asleep false, and an ordinary lease, before they claim (decision 53).';

COMMENT ON FUNCTION treadle.reopen_limit(p_name character varying) IS 'After a limit was changed: lanes that wait for it are searched again.';

COMMENT ON FUNCTION treadle.replace_job(p_worker_id character varying, p_id uuid, p_lease bigint, p_seconds double precision, p_blocks jsonb, p_nths integer[], p_stored uuid[], OUT accepted boolean, OUT problem text) IS 'Ends the attempt of a claimed job whose handler hands its result over to other jobs, and enqueues those. From then on the job is a workflow of these jobs (p_blocks as in enqueue_workflow()): it ends when they have ended, with their result. Fenced by its lease number and worker; all or nothing. p_stored are stored objects, each used by the job with the number in p_nths.';

COMMENT ON FUNCTION treadle.report_jobs(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_seconds double precision[], p_progress integer[], p_stages character varying[], p_paces text[]) IS 'Marks claimed jobs as running for p_seconds, with this progress, stage and pace (null: unchanged). Returns the ids that were accepted; the claims of the others are lost.';

COMMENT ON FUNCTION treadle.report_progress(p_id uuid, p_progress integer, p_stage character varying, p_lease bigint, p_worker_id character varying) IS 'Records the progress (0 to 100) and the stage of a running job; null leaves a value as it is. Returns false if the claim is lost.';

COMMENT ON FUNCTION treadle.report_stopped_children(p_worker_id character varying, p_processes integer[], p_jobs uuid[], p_seconds double precision[], p_starting boolean[]) IS 'Notes which child processes of a worker were stopped, or are still starting, with their jobs and for how many seconds; empty arrays: none. It takes no jobs away. The process that renews the worker''s lease calls it whenever that has changed, and must not wait for a lock.';

COMMENT ON FUNCTION treadle.report_stuck(p_worker_id character varying, p_kind character varying, p_seconds double precision, p_job uuid, p_stack text) IS 'Notes that the event loop of a worker has not run for p_seconds (p_kind: stopped, or blocked by p_job), that it does not begin p_job, which it claimed that long ago (unbegun), or that all is well again (null). The worker keeps its lease and its jobs; one that blocks it is marked as running. The process that renews the worker''s lease calls it, and must not wait for a lock.';

CREATE TABLE treadle.workflows (
    id uuid NOT NULL,
    is_open boolean DEFAULT false NOT NULL,
    plan jsonb,
    has_plan boolean GENERATED ALWAYS AS ((plan IS NOT NULL)) STORED NOT NULL,
    jobs integer DEFAULT 0 NOT NULL,
    completed integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    work bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.workflows IS 'What is known of workflows and batches besides their rows in jobs. The counts are those of the last tick: member_changes has what came since.';

COMMENT ON COLUMN treadle.workflows.id IS 'The job that is the workflow.';

COMMENT ON COLUMN treadle.workflows.is_open IS 'It does not end, even if all of its jobs have ended: more are to be added.';

COMMENT ON COLUMN treadle.workflows.plan IS 'Which jobs are added when it begins: one for each element of a list, or those that undo others. Null: none, or they were added.';

COMMENT ON COLUMN treadle.workflows.has_plan IS 'For roles that may not read the plan, which contains payloads.';

COMMENT ON COLUMN treadle.workflows.completed IS 'How many have completed, or were not needed.';

COMMENT ON COLUMN treadle.workflows.cancelled IS 'How many were cancelled, or deleted before they ended.';

COMMENT ON COLUMN treadle.workflows.work IS 'The efforts of its jobs, for its progress.';

COMMENT ON COLUMN treadle.workflows.done IS 'The efforts of those that have ended.';

COMMENT ON FUNCTION treadle.report_workflow(p_workflow treadle.workflows) IS 'Writes the progress of a workflow into its row in jobs.';

COMMENT ON FUNCTION treadle.request_notifications(p_kind text, p_for interval) IS 'Starts notifications on channel(p_kind) for this long, at most 5 minutes; call it again to continue. ends: the ids of jobs that finish. news: the ids of jobs with new events or progress. Runs with the rights of its owner: a viewer may not set the sequences directly.';

COMMENT ON FUNCTION treadle.reset_floors(p_before timestamp with time zone, p_now timestamp with time zone) IS 'After the clock was set back from p_before: no floor is valid any more, and some other times are in the future. A part of tick().';

COMMENT ON FUNCTION treadle.reset_limit(p_name character varying, p_key character varying, p_actor text, p_reason text) IS 'Undoes set_limit(): the limit is as the code declares it, or gone if no code does. Returns false if nothing was changed. Runs with the rights of its owner, as set_limit().';

COMMENT ON FUNCTION treadle.results_for(p_id uuid) IS 'The arguments of a job that are results of others.';

COMMENT ON FUNCTION treadle.resume(p_job_type character varying, p_queue character varying, p_actor text, p_reason text) IS 'Ends the pause with exactly this job type and queue (null: any). Returns false if there is no such pause. Runs with the rights of its owner, as pause().';

COMMENT ON FUNCTION treadle.retry_delay(p_attempts integer) IS 'The default delay before a job is retried after p_attempts attempts. Exponential: 1 s, doubled with each attempt, at most 1 h, with 50 % jitter, so that jobs that failed together are not retried together.';

COMMENT ON FUNCTION treadle.retry_job(p_id uuid) IS 'Runs a finished job again, with at least one more attempt. Returns false if it has not finished.';

COMMENT ON FUNCTION treadle.retry_workflow(p_id uuid) IS 'Retries the jobs of a workflow that failed, or were cancelled by somebody (a workflow among them itself, if it has none yet); those that were stopped because of them follow by themselves. Returns how many.';

COMMENT ON FUNCTION treadle.review_limits(p_now timestamp with time zone, p_names character varying[], p_keys character varying[]) IS 'A part of tick(): lanes whose limit had an opening that no claim has used, and still has room, become active. And the limits that the lanes wait for which the tick examines in turn: nothing waits forever because an opening was not noted.';

COMMENT ON FUNCTION treadle.roll_up_workflow(p_id uuid, p_since timestamp with time zone) IS 'Adds what has changed to the counts of a workflow, and returns it. The row of the workflow is locked by the caller. What was noted before p_since is left: an open snapshot may keep what was deleted there, and it would be read each time.';

COMMENT ON FUNCTION treadle.roll_up_workflows(p_since timestamp with time zone) IS 'Adds up what has changed in workflows since then, and reports their progress. A part of ticks. What is older than p_since was left because somebody had locked the workflow, or was committed late.';

COMMENT ON FUNCTION treadle.running_transactions() IS 'The transactions that were running when the snapshot was taken. A claim leaves out the rows that they have locked while it reads, which is cheaper than trying each lock. That is only a guess, because xmax may be the id of something else.';

COMMENT ON FUNCTION treadle.safe_floor(p_lane treadle.lane, p_safe treadle.ticks) IS 'A floor below which no transaction that saw the tick p_safe has placed a job; null: every job must be searched. The planner inlines this function.';

COMMENT ON FUNCTION treadle.safe_tick(p_snapshot pg_snapshot) IS 'A tick such that every transaction that has ended since the last tick has seen what was visible to it. For a search that must not miss a job that was committed late: see safe_floor().';

COMMENT ON FUNCTION treadle.sample_jobs() IS 'For the doctor: the first jobs of some lanes, both of those that are due and of those that are due next, and jobs that are claimed. Jobs that come back again and again are among them.';

COMMENT ON FUNCTION treadle.save_checkpoint(p_id uuid, p_checkpoint jsonb, p_lease bigint, p_worker_id character varying) IS 'Saves the checkpoint of a job for its next attempt. Returns false if the claim is lost.';

COMMENT ON FUNCTION treadle.send_notification(p_kind text, p_payload text) IS 'Sends a notification on channel(p_kind), unless this session has switched them off (set "treadle".notify = off, for transactions that must not contain a NOTIFY), or the server''s queue of notifications is almost full: then the transaction could not commit. Notifications are hints; nothing depends on them.';

COMMENT ON FUNCTION treadle.send_signal(p_id uuid, p_name character varying, p_value jsonb, p_actor text) IS 'Sends a signal to a workflow: the step that waits for it completes, with the value as its result. A signal may come before its step begins to wait. Only the first one counts. p_id is the workflow, or the step itself. It is written to the audit. Returns taken; too late, if the step has got a signal, or has ended in another way; or unknown, if there is no such step.';

COMMENT ON FUNCTION treadle.serving_workers(p_queue character varying, p_job_type character varying, p_now timestamp with time zone) IS 'The live workers with a lease that would claim a job of this type in this queue. A worker has one number of slots for jobs on its event loop and threads, and another for jobs in child processes: "together" are the job types that share slots with this one, "places" is how many there are. A worker whose concurrency was set to 0 has none of either.';

COMMENT ON FUNCTION treadle.set_concurrency(p_worker_id character varying, p_concurrency integer, p_actor text, p_reason text) IS 'Changes how many jobs a live worker runs at once, until the worker ends. Null: as many as it was started with; 0: it claims nothing. Returns done; unchanged; missing, if there is no live worker of this name; or unsupported, if it registered no number. Runs with the rights of its owner: the number cannot be changed without an audit row.';

COMMENT ON FUNCTION treadle.set_limit(p_name character varying, p_amount integer, p_period interval, p_burst integer, p_key character varying, p_per character varying, p_job_type character varying, p_queue character varying, p_actor text, p_reason text) IS 'Changes a limit at run time (p_amount null: no limit; 0: nothing runs), for one value of its "per" (p_key) or for all; with a job type or queue, adds it. Also the weight of a value where values take turns, and aging. The values stay, whatever the code declares, until reset_limit(). Returns false if there is no such limit. Runs with the rights of its owner: limits cannot be changed without an audit row.';

COMMENT ON FUNCTION treadle.set_partitions(p_ids uuid[]) IS 'Gives pending jobs the partition that their limits need, if they were inserted by hand, or before there was a limit. Returns how many were changed.';

COMMENT ON FUNCTION treadle.settle_jobs(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_outcomes character varying[], p_errors text[], p_tracebacks text[], p_delays double precision[], p_seconds double precision[], p_crash_limit integer, p_limited_for character varying[]) IS 'Ends attempts that did not complete, many in one statement, each fenced by its lease number and worker. Returns the jobs that were accepted, with their new status.';

COMMENT ON FUNCTION treadle.settle_waiting(p_ids uuid[], p_past uuid) IS 'Frees or stops jobs that wait for others and whose rows the caller has locked, or watches the next that they wait for. Those that they wait for have ended up to p_past, in the order of ids; null: this is not known.';

COMMENT ON FUNCTION treadle.settle_workflows(p_ids uuid[], p_past uuid) IS 'Decides about workflows whose rows in jobs the caller has locked: they begin, end, or watch another of their jobs.';

COMMENT ON FUNCTION treadle.slots_in_use(p_jobs uuid[], p_leases bigint[], p_weights integer[]) IS 'Those of the listed jobs that are still claimed or running under the same lease. The planner inlines this function. The limit of 1 keeps it from turning the subquery into a join that would read all jobs; and only the primary key matches: see complete_jobs.sql.';

COMMENT ON FUNCTION treadle.start_job(p_id uuid, p_lease bigint, p_worker_id character varying, p_once boolean) IS 'Marks a claimed job as running. As in every function that writes for a worker: with p_lease the write is fenced, and false means that the claim is lost and nothing changed. Without p_lease, the job is changed whichever worker has claimed it.';

COMMENT ON FUNCTION treadle.stop_waiting(p_ids uuid[], p_causes uuid[]) IS 'Cancels jobs whose rows are locked, and that wait for jobs that have not ended as they need it. If such a job was itself stopped, the reason names the one that was the cause. They stay held: whoever retries one makes it wait again.';

COMMENT ON FUNCTION treadle.sum_counts(p_histograms jsonb) IS 'Adds histograms, which are a JSON list of lists. A shorter one is of a version with fewer buckets, or has no counts.';

COMMENT ON FUNCTION treadle.sum_minutes(p_reached timestamp with time zone) IS 'For count_minutes(): sums the minutes that are complete in "treadle".spans, for charts of hours and days. p_reached: nothing will be added to minutes before this time.';

COMMENT ON FUNCTION treadle.sweep_stored(p_grace interval, p_limit integer, p_parts integer, OUT swept integer, OUT more boolean, OUT files uuid[], OUT places text[]) IS 'Removes stored objects that no job uses and that were not written to for p_grace. Returns how many, whether there is more to do, and the files to remove elsewhere: the caller removes those, then the rows. If that fails, they are returned again after a minute.';

COMMENT ON FUNCTION treadle.taken_slots(p_ids uuid[], p_lanes treadle.lane[], p_limited integer[], p_limits integer[]) IS 'Which limits the claimed jobs use: for hold_slots(). The lanes that they are from have numbers, and so have the limits; p_limited and p_limits say which lane has which limit. The joins of lists are hashed: with nested loops, each job would be compared with each lane.';

COMMENT ON FUNCTION treadle.tick(p_interval interval) IS 'Maintains the lanes: raises their floors, finds jobs below them that were committed late, and makes unused lanes dormant. Workers call it about every 0.5 s; a claim calls it if nobody did. Returns how many lanes it changed.';

COMMENT ON FUNCTION treadle.tick_is_fresh() IS 'Whether a tick has searched for late commits below the floors within the last 0.8 s. If not, a search makes a tick, or starts at a floor that is safe: see prepare_lanes(). (A tick from the future was made before the clock was set back.) Call this before reading the floors, in a statement of its own: a tick between the two may lower a floor.';

COMMENT ON FUNCTION treadle.time_buckets() IS 'The upper bounds of the histograms of waiting and run times, in seconds.';

COMMENT ON FUNCTION treadle.unblock_next(p_id uuid, p_key character varying) IS 'A job with this key has ended: unblocks the oldest blocked job of the key. While a key has blocked jobs, it has at least one unfinished job that is not blocked. Each of those unblocks one other when it finishes, so two that finish at the same time unblock two. More than one unblocked job does no harm: claims take only the head.';

COMMENT ON FUNCTION treadle.use_stored(p_job_ids uuid[], p_stored_ids uuid[]) IS 'Records that existing jobs use stored objects. Returns the objects that do not exist; no use is recorded for them. Key share locks: until a use is committed, sweep_stored() skips the object, and the job cannot be pruned.';

COMMENT ON FUNCTION treadle.wait_for_limits(p_now timestamp with time zone, p_lanes treadle.lane[], p_names character varying[], p_keys character varying[], p_opens timestamp with time zone[]) IS 'Makes lanes dormant whose jobs wait for a limit, one element of each list per lane, until there is an opening of the limit (see lanes_with_room.sql). One is noted when a job ends (see note_openings.sql), for a limit per period at p_opens, when the next job may start, and a few times shortly after a lane became dormant: whoever ended a job meanwhile may not have seen that a lane waits.';

COMMENT ON FUNCTION treadle.waiting_limits(p_name character varying, p_limit integer) IS 'The limits that lanes wait for, and their keys, each with the time of one of its lanes: one step in idx_lanes_limit for each, up to p_limit. Null for p_name: of all limits.';

COMMENT ON FUNCTION treadle.wake_lanes(p_now timestamp with time zone, p_names character varying[], p_keys character varying[], p_most bigint[]) IS 'Makes some of the lanes active that wait for these limits: as many of each as its element of p_most says, and at most c_lanes. The next claims take care of the others.';

COMMENT ON FUNCTION treadle.wake_workers(p_due timestamp with time zone, p_now boolean) IS 'Notifies an idle worker of a job that is due at p_due: when this transaction commits, or with p_now in this call. It is only a hint: idle workers also poll, every second or, asleep, every minute.';

COMMENT ON FUNCTION treadle.watch_member(p_id uuid, p_past uuid) IS 'Watches one of the jobs of a workflow that have not ended: marks it, so that whoever ends it comes back to the workflow.';

COMMENT ON FUNCTION treadle.why_skipped(p_id uuid) IS 'Why none of the jobs of a workflow was needed: the reason of the last; null if one was, or if it has none.';

CREATE TABLE treadle.audit (
    id bigint NOT NULL,
    act uuid,
    begins boolean DEFAULT true NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    db_user text DEFAULT SESSION_USER NOT NULL,
    action character varying(50) NOT NULL,
    job_id uuid,
    job_type character varying(50),
    queue character varying(50),
    reason text,
    details jsonb DEFAULT '{}'::jsonb NOT NULL
);

COMMENT ON TABLE treadle.audit IS 'What operators changed, one row per job, written in the transaction of the change.';

COMMENT ON COLUMN treadle.audit.act IS 'The act that this row belongs to: a change of several jobs has one for all of them, also if it is made in several transactions. Null: the row is an act of its own.';

COMMENT ON COLUMN treadle.audit.begins IS 'Whether this is the first row of its act. The audit page lists those.';

COMMENT ON COLUMN treadle.audit.actor IS 'Who made the change, according to the program that made it.';

COMMENT ON COLUMN treadle.audit.db_user IS 'The database user of that program.';

COMMENT ON COLUMN treadle.audit.details IS 'The state before the change, and the arguments of the change.';

ALTER TABLE treadle.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE treadle.awaited
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE treadle.clock_jumps (
    id bigint NOT NULL,
    before timestamp with time zone NOT NULL,
    after timestamp with time zone NOT NULL
);

COMMENT ON TABLE treadle.clock_jumps IS 'Jumps of the server''s clock, as they were noticed.';

COMMENT ON COLUMN treadle.clock_jumps.before IS 'What the clock would have shown without the jump; for a jump back that a tick noticed, what the last tick before it had read.';

COMMENT ON COLUMN treadle.clock_jumps.after IS 'What the clock showed when the jump was noticed.';

ALTER TABLE treadle.clock_jumps ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.clock_jumps_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.dependencies (
    job_id uuid NOT NULL,
    after_id uuid NOT NULL,
    needs character varying(20) DEFAULT 'completed'::character varying NOT NULL,
    watched boolean DEFAULT false NOT NULL,
    stopped boolean DEFAULT false NOT NULL,
    grows boolean DEFAULT false NOT NULL,
    arguments character varying(100)[],
    nth integer,
    step character varying(100),
    effort integer DEFAULT 1 NOT NULL,
    CONSTRAINT dependencies_needs_check CHECK (((needs)::text = ANY ((ARRAY['completed'::character varying, 'ended'::character varying, 'failed'::character varying, 'member'::character varying])::text[])))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.dependencies IS 'Which jobs wait for which others (using(after=…)). Kept until the job that waits is deleted.';

COMMENT ON COLUMN treadle.dependencies.needs IS 'What that job has to be: completed; ended, then it may also have failed, or was cancelled or deleted; failed, then it must not have completed; or a member, then the job that waits is a workflow, and fails if this one does not complete.';

COMMENT ON COLUMN treadle.dependencies.watched IS 'The end of that job is, or was, noticed. Of all jobs that a job waits for, one is watched at a time.';

COMMENT ON COLUMN treadle.dependencies.stopped IS 'This one did not complete, and so the job was cancelled, or the workflow fails. If this one is retried, the other waits again.';

COMMENT ON COLUMN treadle.dependencies.grows IS 'The arguments are the results of a group: those of jobs that the other one adds while it runs are added to them.';

COMMENT ON COLUMN treadle.dependencies.arguments IS 'The arguments of the job that get the result of the other.';

COMMENT ON COLUMN treadle.dependencies.nth IS 'The argument is a list, and this is the position of the result in it. Null: the argument is the result.';

COMMENT ON COLUMN treadle.dependencies.step IS 'What the workflow calls this job.';

COMMENT ON COLUMN treadle.dependencies.effort IS 'Of a member: how much of the work of the workflow it is.';

CREATE TABLE treadle.dependency_checks (
    id bigint NOT NULL,
    noted_at timestamp with time zone NOT NULL,
    look_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    jobs uuid[] NOT NULL,
    ended boolean NOT NULL,
    past uuid,
    error text
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN noted_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN look_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN jobs SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN ended SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN past SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_checks ALTER COLUMN error SET STATISTICS 0;

COMMENT ON TABLE treadle.dependency_checks IS 'What could not be decided at commit (see dependency_requests), for the next claim or tick.';

COMMENT ON COLUMN treadle.dependency_checks.look_at IS 'Not before. What could not be decided is looked at after all others.';

COMMENT ON COLUMN treadle.dependency_checks.ended IS 'These have ended, or were retried, and others may wait for them. False: these wait for others.';

COMMENT ON COLUMN treadle.dependency_checks.past IS 'Those that they wait for have ended up to this one; or, if they have ended, those that wait for them were looked at up to this one. Null: none is known.';

COMMENT ON COLUMN treadle.dependency_checks.error IS 'Why it could not be decided: it is tried again later.';

ALTER TABLE treadle.dependency_checks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.dependency_checks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE UNLOGGED TABLE treadle.dependency_requests (
    jobs uuid[] NOT NULL,
    ended boolean NOT NULL,
    past uuid
);
ALTER TABLE ONLY treadle.dependency_requests ALTER COLUMN jobs SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_requests ALTER COLUMN ended SET STATISTICS 0;
ALTER TABLE ONLY treadle.dependency_requests ALTER COLUMN past SET STATISTICS 0;

COMMENT ON TABLE treadle.dependency_requests IS 'Jobs that were enqueued to wait, or have ended, or were retried: at commit, what this means for jobs that wait is decided. Always empty.';

CREATE TABLE treadle.deployments (
    version text NOT NULL,
    first_seen timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE treadle.deployments IS 'When the first worker with a version of the application was started. Kept for 30 days, and as long as such a worker runs.';

CREATE SEQUENCE treadle.depth_clock
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE treadle.depth_history (
    minute timestamp with time zone NOT NULL,
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    jobs bigint NOT NULL
);

COMMENT ON TABLE treadle.depth_history IS 'How many jobs waited at the beginning of each minute, by queue and type; in the row with empty names, all of them. A minute without that row was not counted.';

CREATE TABLE treadle.depths (
    status character varying(20) NOT NULL,
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    priority integer NOT NULL,
    partition character varying(500) NOT NULL COLLATE pg_catalog."C",
    starts_at timestamp with time zone NOT NULL,
    jobs bigint,
    counted_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.depths IS 'How many jobs there are in lanes that are too deep to be counted whenever somebody looks, and of each status of finished jobs, divided by time. See count_depths().';

COMMENT ON COLUMN treadle.depths.status IS 'For finished jobs there is no lane: queue, type and partition are empty.';

COMMENT ON COLUMN treadle.depths.starts_at IS 'The jobs from this time (run_at, or finished_at) to the next row are counted here.';

COMMENT ON COLUMN treadle.depths.jobs IS 'Null: not counted yet.';

CREATE TABLE treadle.error_group_hours (
    group_id integer NOT NULL,
    hour timestamp with time zone NOT NULL,
    failures bigint NOT NULL
)
WITH (fillfactor='70');

COMMENT ON TABLE treadle.error_group_hours IS 'How many attempts failed in each hour, by group. Kept for a week.';

CREATE TABLE treadle.error_group_versions (
    group_id integer NOT NULL,
    version text NOT NULL,
    failures bigint NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL
)
WITH (fillfactor='70');

COMMENT ON TABLE treadle.error_group_versions IS 'The versions of the application in which attempts of a group failed: the latest twenty.';

CREATE TABLE treadle.error_groups (
    id integer NOT NULL,
    job_type character varying(50) NOT NULL,
    exception text NOT NULL,
    message text NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL,
    queues character varying(50)[] DEFAULT '{}'::character varying[] NOT NULL,
    example_job uuid,
    example_at timestamp with time zone,
    example_error text,
    example_traceback text,
    muted_at timestamp with time zone,
    muted_by text,
    muted_reason text,
    muted_until timestamp with time zone,
    muted_versions text[]
)
WITH (fillfactor='50', toast_tuple_target='256', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.error_groups IS 'Failed attempts with the same job type, exception and message, apart from numbers, ids and the like in it. Workers count them a few seconds later. A group is deleted 30 days after its last error.';

COMMENT ON COLUMN treadle.error_groups.exception IS 'The class of the exception. Empty: the handler raised none, as when it timed out or its process died.';

COMMENT ON COLUMN treadle.error_groups.message IS 'What normalise_error() makes of the message; "(other messages)" for those beyond the number of groups that are kept.';

COMMENT ON COLUMN treadle.error_groups.failures IS 'Failed attempts since first_seen, including those that were retried.';

COMMENT ON COLUMN treadle.error_groups.queues IS 'The queues of these jobs: the first ten.';

COMMENT ON COLUMN treadle.error_groups.example_at IS 'When the example failed: the newest one, but it is replaced every ten minutes at most.';

COMMENT ON COLUMN treadle.error_groups.muted_until IS 'Null: until somebody ends it, or a version that is not in muted_versions fails.';

ALTER TABLE treadle.error_groups ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.error_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.error_meter (
    only_row boolean DEFAULT true NOT NULL,
    reached timestamp with time zone NOT NULL,
    late_reached timestamp with time zone NOT NULL,
    CONSTRAINT error_meter_only_row_check CHECK (only_row)
)
WITH (fillfactor='10');

COMMENT ON TABLE treadle.error_meter IS 'One row: up to when failed attempts are counted in error_groups, and up to when those that were committed late are.';

CREATE TABLE treadle.errors (
    job_id uuid NOT NULL,
    failed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempt integer NOT NULL,
    lease bigint,
    worker_id character varying(100),
    started_at timestamp with time zone,
    error text NOT NULL,
    traceback text
);

COMMENT ON TABLE treadle.errors IS 'The failed attempts of jobs: when, on which worker, and why. Deleted with their job.';

CREATE TABLE treadle.events (
    job_id uuid NOT NULL,
    number integer NOT NULL,
    job_type character varying(50) NOT NULL,
    attempt integer NOT NULL,
    lease bigint NOT NULL,
    sequence integer,
    phase smallint DEFAULT 3 NOT NULL,
    happened_at timestamp with time zone NOT NULL,
    name character varying(100) NOT NULL,
    data jsonb DEFAULT '{}'::jsonb NOT NULL,
    transaction xid8 DEFAULT pg_current_xact_id() NOT NULL
);

COMMENT ON TABLE treadle.events IS 'The events that handlers published with job.event(), numbered per job. Deleted with their job.';

COMMENT ON COLUMN treadle.events.sequence IS 'The number of the event within its lease number: an event that is written twice is found by it. Null for record_event().';

COMMENT ON COLUMN treadle.events.phase IS 'The place of the event among the transitions of its lease number: see job_events().';

COMMENT ON COLUMN treadle.events.transaction IS 'The transaction that wrote it. A reader of all events stops at the oldest transaction that still runs, and so skips none.';

CREATE TABLE treadle.expiries (
    look_at timestamp with time zone NOT NULL,
    job_id uuid NOT NULL
);
ALTER TABLE ONLY treadle.expiries ALTER COLUMN look_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.expiries ALTER COLUMN job_id SET STATISTICS 0;

COMMENT ON TABLE treadle.expiries IS 'When to look whether a job has expired.';

CREATE SEQUENCE treadle.fair_turns
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
    CYCLE;

CREATE TABLE treadle.fair_weights (
    job_type character varying(50) NOT NULL,
    key character varying(200) NOT NULL COLLATE pg_catalog."C",
    weight integer NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT fair_weights_weight_check CHECK ((weight >= 0))
);
ALTER TABLE ONLY treadle.fair_weights ALTER COLUMN job_type SET STATISTICS 0;
ALTER TABLE ONLY treadle.fair_weights ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE ONLY treadle.fair_weights ALTER COLUMN weight SET STATISTICS 0;
ALTER TABLE ONLY treadle.fair_weights ALTER COLUMN changed_by SET STATISTICS 0;
ALTER TABLE ONLY treadle.fair_weights ALTER COLUMN changed_at SET STATISTICS 0;

COMMENT ON TABLE treadle.fair_weights IS 'How many turns a value gets where values take turns, set at run time. Others get one.';

CREATE TABLE treadle.floors (
    id bigint NOT NULL,
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    priority integer NOT NULL,
    partition character varying(500) DEFAULT ''::character varying NOT NULL COLLATE pg_catalog."C",
    floor timestamp with time zone NOT NULL,
    xid xid8 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='50', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.floors ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY treadle.floors ALTER COLUMN queue SET STATISTICS 0;
ALTER TABLE ONLY treadle.floors ALTER COLUMN job_type SET STATISTICS 0;
ALTER TABLE ONLY treadle.floors ALTER COLUMN priority SET STATISTICS 0;
ALTER TABLE ONLY treadle.floors ALTER COLUMN partition SET STATISTICS 0;
ALTER TABLE ONLY treadle.floors ALTER COLUMN floor SET STATISTICS 0;
ALTER TABLE ONLY treadle.floors ALTER COLUMN xid SET STATISTICS 0;

COMMENT ON TABLE treadle.floors IS 'Where claims start in each lane: the newest floor is the valid one.';

COMMENT ON COLUMN treadle.floors.id IS 'For replication only.';

COMMENT ON COLUMN treadle.floors.floor IS 'No claimable job has an earlier run_at, except of transactions that were running when the floor was written.';

COMMENT ON COLUMN treadle.floors.xid IS 'The transaction id of the tick that wrote it.';

ALTER TABLE treadle.floors ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.floors_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.functions (
    name text NOT NULL,
    digest text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE treadle.functions IS 'The functions as they were last applied: a changed file is applied again.';

CREATE TABLE treadle.grouped_errors (
    job_id uuid NOT NULL,
    failed_at timestamp with time zone NOT NULL,
    group_id integer NOT NULL
);

COMMENT ON TABLE treadle.grouped_errors IS 'The rows of errors that were counted, with their group. Deleted with their job.';

CREATE SEQUENCE treadle.lane_clock
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE treadle.lane_epoch
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

COMMENT ON SEQUENCE treadle.lane_epoch IS 'Moves whenever a lane becomes dormant or is deleted: what a session has seen before that, it looks up again.';

CREATE TABLE treadle.lanes (
    id bigint NOT NULL,
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    priority integer NOT NULL,
    partition character varying(500) DEFAULT ''::character varying NOT NULL COLLATE pg_catalog."C",
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    dormant_xid xid8,
    wakes_at timestamp with time zone,
    limit_name character varying(100),
    limit_key character varying(200) COLLATE pg_catalog."C",
    CONSTRAINT dormant_for_limit CHECK (((limit_name IS NULL) OR ((dormant_xid IS NOT NULL) AND (limit_key IS NOT NULL)))),
    CONSTRAINT valid_partition CHECK ((((partition)::text = ''::text) OR (jsonb_typeof((partition)::jsonb) = 'object'::text)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='50', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.lanes ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN queue SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN job_type SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN priority SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN partition SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN changed_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN dormant_xid SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN wakes_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN limit_name SET STATISTICS 0;
ALTER TABLE ONLY treadle.lanes ALTER COLUMN limit_key SET STATISTICS 0;

COMMENT ON TABLE treadle.lanes IS 'The lanes (queue, job type, priority, partition) that have or had jobs. A lane is listed more than once until the next tick.';

COMMENT ON COLUMN treadle.lanes.changed_at IS 'When the lane last became active or dormant.';

COMMENT ON COLUMN treadle.lanes.dormant_xid IS 'The transaction that made the lane dormant: claims do not search it until its first job is due, a job arrives, or its limit has room. Null: it is active.';

COMMENT ON COLUMN treadle.lanes.wakes_at IS 'When the first job of a dormant lane is due; the lane becomes active before that.';

COMMENT ON COLUMN treadle.lanes.limit_name IS 'The limit that a dormant lane waits for. Claims search it when the limit may have room: see limit_openings.';

COMMENT ON COLUMN treadle.lanes.limit_key IS 'And the value of its "per".';

ALTER TABLE treadle.lanes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.lanes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.limit_holders (
    name character varying(100) NOT NULL,
    key character varying(200) NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    jobs uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    leases bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    weights integer[] DEFAULT '{}'::integer[] NOT NULL,
    weight bigint DEFAULT 0 NOT NULL,
    found integer DEFAULT 0 NOT NULL,
    full_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    closed_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN version SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN jobs SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN leases SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN weights SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN weight SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN found SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN full_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_holders ALTER COLUMN closed_until SET STATISTICS 0;

COMMENT ON TABLE treadle.limit_holders IS 'Which jobs use a limit. Only the newest row counts, and of its jobs only those that are still claimed or running under that lease.';

COMMENT ON COLUMN treadle.limit_holders.found IS 'How many of the jobs still used the limit when that was last checked.';

COMMENT ON COLUMN treadle.limit_holders.full_at IS 'Of a rate: when all of its burst can be used again.';

COMMENT ON COLUMN treadle.limit_holders.closed_until IS 'A job was told to wait until then.';

CREATE TABLE treadle.limit_keys (
    name character varying(100) NOT NULL,
    key character varying(200) NOT NULL COLLATE pg_catalog."C",
    amount integer,
    changed_by text,
    changed_at timestamp with time zone,
    CONSTRAINT limit_keys_amount_check CHECK ((amount >= 0))
);
ALTER TABLE ONLY treadle.limit_keys ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_keys ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_keys ALTER COLUMN amount SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_keys ALTER COLUMN changed_by SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_keys ALTER COLUMN changed_at SET STATISTICS 0;

COMMENT ON TABLE treadle.limit_keys IS 'The values of "per" that are or were in use, one row with an empty key for limits without.';

COMMENT ON COLUMN treadle.limit_keys.amount IS 'The limit for this value only. Null: as for the others.';

CREATE TABLE treadle.limit_openings (
    opens_at timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    key character varying(200) NOT NULL COLLATE pg_catalog."C"
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.limit_openings ALTER COLUMN opens_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_openings ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_openings ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_openings ALTER COLUMN key SET STATISTICS 0;

COMMENT ON TABLE treadle.limit_openings IS 'When a limit that lanes wait for may have room.';

ALTER TABLE treadle.limit_openings ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.limit_openings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.limit_targets (
    job_type character varying(50) DEFAULT ''::character varying NOT NULL,
    queue character varying(50) DEFAULT ''::character varying NOT NULL,
    name character varying(100) NOT NULL,
    declared_at timestamp with time zone
);
ALTER TABLE ONLY treadle.limit_targets ALTER COLUMN job_type SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_targets ALTER COLUMN queue SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_targets ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.limit_targets ALTER COLUMN declared_at SET STATISTICS 0;

COMMENT ON TABLE treadle.limit_targets IS 'Which jobs a limit is for. Empty: all job types, all queues. A row without a name says that the job type is in type_settings: so one look at this table tells whether claims and enqueues have anything to obey.';

CREATE TABLE treadle.limits (
    name character varying(100) NOT NULL,
    kind character varying(11) NOT NULL,
    per character varying(50) DEFAULT ''::character varying NOT NULL,
    amount integer,
    period interval,
    burst integer,
    when_full character varying(10),
    declared jsonb,
    digest character varying,
    former_digests character varying[] DEFAULT '{}'::character varying[] NOT NULL,
    declared_at timestamp with time zone,
    changed_by text,
    changed_at timestamp with time zone,
    CONSTRAINT limits_amount_check CHECK ((amount >= 0)),
    CONSTRAINT limits_burst_check CHECK ((burst >= 1)),
    CONSTRAINT limits_period_check CHECK ((period > '00:00:00'::interval)),
    CONSTRAINT limits_when_full_check CHECK (((when_full)::text = ANY ((ARRAY['refuse'::character varying, 'drop'::character varying])::text[]))),
    CONSTRAINT valid_kind CHECK ((((kind)::text = ANY ((ARRAY['concurrency'::character varying, 'rate'::character varying, 'pending'::character varying])::text[])) AND (((kind)::text = 'rate'::text) = (period IS NOT NULL)) AND (((kind)::text = 'rate'::text) OR (burst IS NULL)) AND (((kind)::text = 'pending'::text) = (when_full IS NOT NULL))))
);
ALTER TABLE ONLY treadle.limits ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN kind SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN per SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN amount SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN period SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN burst SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN when_full SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN declared SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN digest SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN former_digests SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN declared_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN changed_by SET STATISTICS 0;
ALTER TABLE ONLY treadle.limits ALTER COLUMN changed_at SET STATISTICS 0;

COMMENT ON TABLE treadle.limits IS 'How many jobs may run at once, start per period, or wait.';

COMMENT ON COLUMN treadle.limits.kind IS 'concurrency: how many run at once; rate: how many start per period; pending: how many may wait.';

COMMENT ON COLUMN treadle.limits.per IS 'Each value of this part of the partition has the limit for itself. Empty: all jobs have it together.';

COMMENT ON COLUMN treadle.limits.amount IS 'How many at once, per period, or waiting. 0: none. Null: not limited.';

COMMENT ON COLUMN treadle.limits.burst IS 'Of a rate: how many may start at once after a quiet time. 1: evenly spaced. Null: the amount.';

COMMENT ON COLUMN treadle.limits.when_full IS 'Of the kind pending: what happens when it is reached: refuse the new jobs, or drop (cancel) the oldest.';

COMMENT ON COLUMN treadle.limits.declared IS 'Kind, amount, seconds, burst and when_full as the code declares them. Null: not declared in code.';

COMMENT ON COLUMN treadle.limits.changed_by IS 'Who changed the values at run time: then they stay when the code declares others. Null: nobody.';

CREATE TABLE treadle.logs (
    job_id uuid NOT NULL,
    number integer NOT NULL,
    attempt integer NOT NULL,
    lease bigint NOT NULL,
    sequence integer NOT NULL,
    logged_at timestamp with time zone NOT NULL,
    level smallint NOT NULL,
    logger text NOT NULL,
    message text NOT NULL
);

COMMENT ON TABLE treadle.logs IS 'What handlers logged: the first and the last lines of each job. Deleted with their job.';

CREATE TABLE treadle.member_changes (
    id bigint NOT NULL,
    workflow_id uuid NOT NULL,
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    jobs integer DEFAULT 0 NOT NULL,
    completed integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    work bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.member_changes IS 'By how much the counts of a workflow change: a row for each job that was added, failed, was cancelled or retried, and for each statement that completed some. A tick adds them up, so that no row is updated by every job.';

ALTER TABLE treadle.member_changes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.member_changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.meter (
    only_row boolean DEFAULT true NOT NULL,
    reached timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    summed_to timestamp with time zone,
    CONSTRAINT meter_only_row_check CHECK (only_row)
)
WITH (fillfactor='10');

COMMENT ON TABLE treadle.meter IS 'One row: up to when finished jobs are counted in minutes.';

COMMENT ON COLUMN treadle.meter.summed_to IS 'Up to when spans has the sums of minutes. Null: none yet.';

CREATE TABLE treadle.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE treadle.migrations IS 'The migrations that were applied.';

CREATE TABLE treadle.minutes (
    minute timestamp with time zone NOT NULL,
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    cancelled bigint DEFAULT 0 NOT NULL,
    errors bigint DEFAULT 0 NOT NULL,
    waited double precision DEFAULT 0 NOT NULL,
    waited_most double precision DEFAULT 0 NOT NULL,
    waited_counts bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    ran double precision DEFAULT 0 NOT NULL,
    ran_most double precision DEFAULT 0 NOT NULL,
    ran_counts bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    slowest_id uuid
)
WITH (fillfactor='70');

COMMENT ON TABLE treadle.minutes IS 'What finished in each minute, for charts. Workers count it a few seconds later; it is kept for a week.';

COMMENT ON COLUMN treadle.minutes.errors IS 'Failed attempts, including those that were retried.';

COMMENT ON COLUMN treadle.minutes.waited IS 'How long the completed jobs waited after they were due, in seconds, summed.';

COMMENT ON COLUMN treadle.minutes.waited_counts IS 'How many of the completed jobs waited how long: one count for each bucket of time_buckets(), and one for longer times.';

COMMENT ON COLUMN treadle.minutes.ran IS 'How long the completed jobs ran, in seconds, summed.';

COMMENT ON COLUMN treadle.minutes.ran_counts IS 'How many of the completed jobs ran how long, in the same buckets.';

COMMENT ON COLUMN treadle.minutes.slowest_id IS 'The completed job that ran for the longest time. It may have been deleted since.';

CREATE TABLE treadle.occurrences (
    schedule character varying(100) NOT NULL,
    scheduled_for timestamp with time zone NOT NULL,
    job_id uuid,
    skipped character varying(10),
    decided_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE treadle.occurrences IS 'The times of schedules, and the jobs that were enqueued for them.';

COMMENT ON COLUMN treadle.occurrences.skipped IS 'Why no job was enqueued: missed, overlap or unique.';

CREATE TABLE treadle.pruned (
    status character varying(20) NOT NULL,
    reached timestamp with time zone NOT NULL
);
ALTER TABLE ONLY treadle.pruned ALTER COLUMN status SET STATISTICS 0;
ALTER TABLE ONLY treadle.pruned ALTER COLUMN reached SET STATISTICS 0;

COMMENT ON TABLE treadle.pruned IS 'Up to which finished_at workers have deleted finished jobs: they go on from there. See prune_jobs().';

CREATE TABLE treadle.seal (
    only_row boolean DEFAULT true NOT NULL,
    secret uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT seal_only_row_check CHECK (only_row)
);

COMMENT ON TABLE treadle.seal IS 'A secret of this schema: settings of sessions that are sealed with it are our own.';

CREATE TABLE treadle.spans (
    step integer NOT NULL,
    job_type character varying(50) NOT NULL,
    queue character varying(50) NOT NULL,
    at timestamp with time zone NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    errors bigint NOT NULL,
    waited double precision NOT NULL,
    waited_most double precision NOT NULL,
    waited_counts bigint[] NOT NULL,
    ran double precision NOT NULL,
    ran_most double precision NOT NULL,
    ran_counts bigint[] NOT NULL,
    slowest_id uuid
);

COMMENT ON TABLE treadle.spans IS 'The rows of minutes, with the same columns, summed over spans of step seconds: 300 for 7 hours, 900 for 25 hours, 7200 for 8 days. Workers add a span after it has ended.';

COMMENT ON COLUMN treadle.spans.at IS 'When the span begins.';

CREATE TABLE treadle.steps (
    job_id uuid NOT NULL,
    "position" integer NOT NULL,
    name character varying(200) NOT NULL,
    result jsonb,
    lease bigint NOT NULL,
    done_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE treadle.steps IS 'Finished steps of jobs, with their results: they are not repeated. Deleted with their job.';

CREATE TABLE treadle.stored (
    id uuid NOT NULL,
    size bigint,
    digest text,
    name character varying(200),
    place text,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    written_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    removing_at timestamp with time zone
)
WITH (fillfactor='70');

COMMENT ON TABLE treadle.stored IS 'One row per stored object: what Stored in a payload or a result refers to.';

COMMENT ON COLUMN treadle.stored.size IS 'In bytes; null until all of them are written, and until then nothing can refer to the object.';

COMMENT ON COLUMN treadle.stored.digest IS 'SHA-256, in hexadecimal.';

COMMENT ON COLUMN treadle.stored.place IS 'The folder or object store (a URL) of its file; null: its bytes are in stored_parts.';

COMMENT ON COLUMN treadle.stored.written_at IS 'When the object was last written to. It is not swept for some time after that.';

COMMENT ON COLUMN treadle.stored.removing_at IS 'Set when the object is being removed and cannot be used any more: when the removal of its file last began.';

CREATE TABLE treadle.stored_parts (
    stored_id uuid NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY treadle.stored_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

COMMENT ON TABLE treadle.stored_parts IS 'The bytes of stored objects: 256 kB per part, numbered from 0, the last one shorter.';

CREATE TABLE treadle.stored_uses (
    stored_id uuid NOT NULL,
    job_id uuid NOT NULL
);

COMMENT ON TABLE treadle.stored_uses IS 'Which jobs use which stored objects. A use is deleted with its job; an object without one is swept.';

CREATE SEQUENCE treadle.tick_clock
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE treadle.totals (
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    completed bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    errors bigint NOT NULL,
    waited double precision NOT NULL,
    waited_counts bigint[] NOT NULL,
    ran double precision NOT NULL,
    ran_counts bigint[] NOT NULL,
    counted_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.totals IS 'What has finished since the queue was created, by queue and type, as minutes counts it, with the same columns. For metrics: these numbers do not decrease. Those of a type of which nothing has finished for 30 days are deleted.';

CREATE TABLE treadle.type_settings (
    job_type character varying(50) NOT NULL,
    fair_by character varying(50),
    weights_of character varying(50),
    aging_after interval,
    aging_share integer,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    digest character varying,
    former_digests character varying[] DEFAULT '{}'::character varying[] NOT NULL,
    declared_at timestamp with time zone,
    changed_by text,
    changed_at timestamp with time zone,
    CONSTRAINT type_settings_aging_after_check CHECK ((aging_after > '00:00:00'::interval)),
    CONSTRAINT type_settings_aging_share_check CHECK (((aging_share >= 0) AND (aging_share <= 100))),
    CONSTRAINT valid_aging CHECK (((aging_after IS NULL) OR ((job_type)::text = ''::text))),
    CONSTRAINT valid_fairness CHECK ((((fair_by IS NULL) = (weights_of IS NULL)) AND (((fair_by)::text <> ''::text) = ((job_type)::text <> ''::text))))
);
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN job_type SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN fair_by SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN weights_of SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN aging_after SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN aging_share SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN declared SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN digest SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN former_digests SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN declared_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN changed_by SET STATISTICS 0;
ALTER TABLE ONLY treadle.type_settings ALTER COLUMN changed_at SET STATISTICS 0;

COMMENT ON TABLE treadle.type_settings IS 'How claims choose among jobs of one priority and among priorities: settings of a job type, or, in the row with an empty one, of all.';

COMMENT ON COLUMN treadle.type_settings.fair_by IS 'The values of this part of the partition take turns; empty, in the row for all: the job types do. Null: the oldest job comes first.';

COMMENT ON COLUMN treadle.type_settings.weights_of IS 'By which job type the weights of these values are stored: its own, or, for an alias, the one that it is an alias of.';

COMMENT ON COLUMN treadle.type_settings.aging_after IS 'A share of the claims begins with jobs that have waited for longer than this, whatever their priority. Null: none does.';

COMMENT ON COLUMN treadle.type_settings.aging_share IS 'How many of a hundred claims.';

COMMENT ON COLUMN treadle.type_settings.declared IS 'The seconds and the share of aging as the code declares them.';

COMMENT ON COLUMN treadle.type_settings.changed_by IS 'Who changed aging at run time: then it stays when the code declares other values. Null: nobody.';

CREATE TABLE treadle.unique_periods (
    job_type character varying(50) NOT NULL,
    unique_key character varying(200) NOT NULL,
    slot integer NOT NULL,
    job_id uuid,
    taken_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    ends_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
);

COMMENT ON TABLE treadle.unique_periods IS 'For unique keys with a limit per period: one row for each job that may be enqueued per period.';

COMMENT ON COLUMN treadle.unique_periods.job_id IS 'The last job that was enqueued in this place.';

COMMENT ON COLUMN treadle.unique_periods.ends_at IS 'When this row is no longer needed.';

CREATE TABLE treadle.unlisted_jobs (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    key character varying(200) NOT NULL COLLATE pg_catalog."C",
    job uuid NOT NULL,
    lease bigint NOT NULL,
    weight integer NOT NULL,
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN job SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN lease SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN weight SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_jobs ALTER COLUMN noted_at SET STATISTICS 0;

COMMENT ON TABLE treadle.unlisted_jobs IS 'Jobs that use a limit and were not claimed under it: they were running when it was added, or were claimed by a plain UPDATE. The next claim under the limit moves them to limit_holders.';

ALTER TABLE treadle.unlisted_jobs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.unlisted_jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE treadle.unlisted_limits (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    claims text[]
);
ALTER TABLE ONLY treadle.unlisted_limits ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_limits ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_limits ALTER COLUMN noted_at SET STATISTICS 0;
ALTER TABLE ONLY treadle.unlisted_limits ALTER COLUMN claims SET STATISTICS 0;

COMMENT ON TABLE treadle.unlisted_limits IS 'Limits that are new, or for other jobs or per something else than before, a row for each change: jobs may run under them that are not in limit_holders. See list_running_jobs().';

COMMENT ON COLUMN treadle.unlisted_limits.noted_at IS 'When it was changed, and then, when a claim first listed the jobs that were running.';

COMMENT ON COLUMN treadle.unlisted_limits.claims IS 'The transactions (pg_locks.virtualtransaction) that were claiming then: they may not know the limit. Null: no claim has looked.';

ALTER TABLE treadle.unlisted_limits ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.unlisted_limits_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE treadle.wake_clock
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

COMMENT ON SEQUENCE treadle.wake_clock IS 'When workers were last notified, in microseconds since 1970; 0 or 1: a worker has gone idle since, and is to be notified of the next job.';

CREATE UNLOGGED TABLE treadle.wake_requests (
);

COMMENT ON TABLE treadle.wake_requests IS 'Transactions that decide at commit whether to notify workers. Always empty.';

CREATE SEQUENCE treadle.watched
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE treadle.worker_concurrency (
    worker_id character varying(100) NOT NULL,
    concurrency integer NOT NULL,
    changed_by text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT worker_concurrency_concurrency_check CHECK (((concurrency >= 0) AND (concurrency <= 10000)))
);

COMMENT ON TABLE treadle.worker_concurrency IS 'How many jobs a worker runs at once, if an operator has changed it; otherwise it is workers.concurrency. See set_concurrency().';

COMMENT ON COLUMN treadle.worker_concurrency.concurrency IS '0: the worker claims nothing.';

CREATE TABLE treadle.worker_starts (
    minute timestamp with time zone NOT NULL,
    version text NOT NULL,
    workers integer NOT NULL
);

COMMENT ON TABLE treadle.worker_starts IS 'How many workers started in which minute, for the marks of charts; kept for 8 days. Workers that ran for less than 5 minutes may be missing.';

CREATE TABLE treadle.worker_versions (
    worker_id character varying(100) NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    version text NOT NULL
);

COMMENT ON TABLE treadle.worker_versions IS 'The version of the application that a worker runs, if it has one. Kept for a week.';

CREATE TABLE treadle.workers (
    worker_id character varying(100) NOT NULL,
    version text,
    host text,
    pid integer,
    job_types character varying(50)[],
    queues character varying(50)[],
    concurrency integer,
    process_types character varying(50)[],
    children integer,
    handlers text[],
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease interval,
    asleep_at timestamp with time zone,
    stuck_since timestamp with time zone,
    stuck_kind character varying(20),
    stuck_job uuid,
    stuck_job_type character varying(50),
    stuck_stack text,
    stopped_children jsonb,
    lost_at timestamp with time zone,
    lost_because text,
    jobs_given_back integer,
    jobs_failed integer
)
WITH (fillfactor='50');

COMMENT ON TABLE treadle.workers IS 'One row per worker. Heartbeats update it, so none is written per job.';

COMMENT ON COLUMN treadle.workers.version IS 'The version of Treadle that the worker runs.';

COMMENT ON COLUMN treadle.workers.process_types IS 'Those of its job types that run in child processes and do not count towards concurrency.';

COMMENT ON COLUMN treadle.workers.children IS 'How many jobs run in child processes at once; concurrency is for the other jobs.';

COMMENT ON COLUMN treadle.workers.handlers IS 'The functions of its job types, in the same order, as module.function. Null: unknown.';

COMMENT ON COLUMN treadle.workers.lease IS 'How long the worker may go without renewing before other workers get its jobs; null for heartbeats by hand.';

COMMENT ON COLUMN treadle.workers.asleep_at IS 'When it fell asleep, without jobs; its lease is long meanwhile. Null: it is awake. See renew_workers().';

COMMENT ON COLUMN treadle.workers.stuck_since IS 'When its event loop last ran, if that is some seconds ago although its lease is renewed; or when it claimed the job that it does not begin. Null: all is well. See report_stuck().';

COMMENT ON COLUMN treadle.workers.stuck_kind IS 'stopped: its process was stopped, by a signal or a debugger; blocked: something blocks its event loop; unbegun: it has claimed a job and does not begin it although it has room.';

COMMENT ON COLUMN treadle.workers.stuck_job IS 'The job that blocks its event loop, if it is known, or that it does not begin.';

COMMENT ON COLUMN treadle.workers.stuck_stack IS 'Where its event loop is blocked, if it is known.';

COMMENT ON COLUMN treadle.workers.stopped_children IS 'Its child processes that were stopped, by a signal or a debugger, with the job that each one runs, and those that have been starting for long. Null: none. See report_stopped_children().';

COMMENT ON COLUMN treadle.workers.lost_at IS 'When the worker was declared lost. Its row is kept for a day, so that a claim of it that arrives late is found.';

COMMENT ON COLUMN treadle.workers.jobs_given_back IS 'How many of its jobs were pending again when it was lost.';

COMMENT ON COLUMN treadle.workers.jobs_failed IS 'How many of its jobs ended when it was lost, because they have crashed too often or have no attempts left.';

ALTER TABLE ONLY treadle.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.clock_jumps
    ADD CONSTRAINT clock_jumps_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.dependencies
    ADD CONSTRAINT dependencies_pkey PRIMARY KEY (job_id, after_id);

ALTER TABLE ONLY treadle.dependency_checks
    ADD CONSTRAINT dependency_checks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.deployments
    ADD CONSTRAINT deployments_pkey PRIMARY KEY (version);

ALTER TABLE ONLY treadle.depth_history
    ADD CONSTRAINT depth_history_pkey PRIMARY KEY (minute, queue, job_type);

ALTER TABLE ONLY treadle.depths
    ADD CONSTRAINT depths_pkey PRIMARY KEY (status, queue, job_type, priority, partition, starts_at);

ALTER TABLE ONLY treadle.error_group_hours
    ADD CONSTRAINT error_group_hours_pkey PRIMARY KEY (group_id, hour);

ALTER TABLE ONLY treadle.error_group_versions
    ADD CONSTRAINT error_group_versions_pkey PRIMARY KEY (group_id, version);

ALTER TABLE ONLY treadle.error_groups
    ADD CONSTRAINT error_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.error_meter
    ADD CONSTRAINT error_meter_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY treadle.errors
    ADD CONSTRAINT errors_pkey PRIMARY KEY (job_id, failed_at);

ALTER TABLE ONLY treadle.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (job_id, number);

ALTER TABLE ONLY treadle.expiries
    ADD CONSTRAINT expiries_pkey PRIMARY KEY (look_at, job_id);

ALTER TABLE ONLY treadle.fair_weights
    ADD CONSTRAINT fair_weights_pkey PRIMARY KEY (job_type, key);

ALTER TABLE ONLY treadle.floors
    ADD CONSTRAINT floors_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.functions
    ADD CONSTRAINT functions_pkey PRIMARY KEY (name);

ALTER TABLE ONLY treadle.grouped_errors
    ADD CONSTRAINT grouped_errors_pkey PRIMARY KEY (job_id, failed_at);

ALTER TABLE ONLY treadle.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.limit_holders
    ADD CONSTRAINT limit_holders_pkey PRIMARY KEY (name, key, version);

ALTER TABLE ONLY treadle.limit_keys
    ADD CONSTRAINT limit_keys_pkey PRIMARY KEY (name, key);

ALTER TABLE ONLY treadle.limit_openings
    ADD CONSTRAINT limit_openings_pkey PRIMARY KEY (opens_at, id);

ALTER TABLE ONLY treadle.limit_targets
    ADD CONSTRAINT limit_targets_pkey PRIMARY KEY (job_type, queue, name);

ALTER TABLE ONLY treadle.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (name);

ALTER TABLE ONLY treadle.logs
    ADD CONSTRAINT logs_pkey PRIMARY KEY (job_id, number);

ALTER TABLE ONLY treadle.member_changes
    ADD CONSTRAINT member_changes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.meter
    ADD CONSTRAINT meter_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY treadle.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY treadle.minutes
    ADD CONSTRAINT minutes_pkey PRIMARY KEY (minute, queue, job_type);

ALTER TABLE ONLY treadle.occurrences
    ADD CONSTRAINT occurrences_pkey PRIMARY KEY (schedule, scheduled_for);

ALTER TABLE ONLY treadle.pauses
    ADD CONSTRAINT pauses_pkey PRIMARY KEY (job_type, queue);

ALTER TABLE ONLY treadle.pruned
    ADD CONSTRAINT pruned_pkey PRIMARY KEY (status, reached);

ALTER TABLE ONLY treadle.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (name);

ALTER TABLE ONLY treadle.seal
    ADD CONSTRAINT seal_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY treadle.spans
    ADD CONSTRAINT spans_pkey PRIMARY KEY (step, job_type, queue, at);

ALTER TABLE ONLY treadle.steps
    ADD CONSTRAINT steps_pkey PRIMARY KEY (job_id, "position");

ALTER TABLE ONLY treadle.stored_parts
    ADD CONSTRAINT stored_parts_pkey PRIMARY KEY (stored_id, part);

ALTER TABLE ONLY treadle.stored
    ADD CONSTRAINT stored_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.stored_uses
    ADD CONSTRAINT stored_uses_pkey PRIMARY KEY (stored_id, job_id);

ALTER TABLE ONLY treadle.ticks
    ADD CONSTRAINT ticks_pkey PRIMARY KEY (xid);

ALTER TABLE ONLY treadle.totals
    ADD CONSTRAINT totals_pkey PRIMARY KEY (queue, job_type);

ALTER TABLE ONLY treadle.type_settings
    ADD CONSTRAINT type_settings_pkey PRIMARY KEY (job_type);

ALTER TABLE ONLY treadle.unique_periods
    ADD CONSTRAINT unique_periods_pkey PRIMARY KEY (job_type, unique_key, slot);

ALTER TABLE ONLY treadle.unlisted_jobs
    ADD CONSTRAINT unlisted_jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.unlisted_limits
    ADD CONSTRAINT unlisted_limits_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.worker_concurrency
    ADD CONSTRAINT worker_concurrency_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY treadle.worker_starts
    ADD CONSTRAINT worker_starts_pkey PRIMARY KEY (minute, version);

ALTER TABLE ONLY treadle.worker_versions
    ADD CONSTRAINT worker_versions_pkey PRIMARY KEY (worker_id, registered_at);

ALTER TABLE ONLY treadle.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY treadle.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (id);

CREATE INDEX idx_audit_act ON treadle.audit USING btree (act, id) WHERE (act IS NOT NULL);

CREATE UNIQUE INDEX idx_audit_acts ON treadle.audit USING btree (act) WHERE (begins AND (act IS NOT NULL));

CREATE INDEX idx_audit_begins ON treadle.audit USING btree (id) WHERE begins;

CREATE INDEX idx_audit_job ON treadle.audit USING btree (job_id) WHERE (job_id IS NOT NULL);

CREATE INDEX idx_audit_queue ON treadle.audit USING btree (id) WHERE (job_id IS NULL);

CREATE INDEX idx_dependencies_after ON treadle.dependencies USING btree (after_id, job_id);

CREATE INDEX idx_dependencies_stopped ON treadle.dependencies USING btree (job_id, after_id) WHERE stopped;

CREATE INDEX idx_dependencies_watched ON treadle.dependencies USING btree (after_id, job_id) WHERE watched;

CREATE INDEX idx_dependency_checks_look ON treadle.dependency_checks USING btree (look_at);

CREATE INDEX idx_dependency_checks_noted ON treadle.dependency_checks USING btree (noted_at);

CREATE INDEX idx_deployments_first_seen ON treadle.deployments USING btree (first_seen);

CREATE INDEX idx_error_group_hours_hour ON treadle.error_group_hours USING btree (hour);

CREATE UNIQUE INDEX idx_error_groups_message ON treadle.error_groups USING btree (job_type, exception, message);

CREATE INDEX idx_errors_failed_at ON treadle.errors USING btree (failed_at);

CREATE INDEX idx_events_transaction ON treadle.events USING btree (transaction, job_id, number);

CREATE INDEX idx_floors_lane ON treadle.floors USING btree (job_type, queue, priority, partition, xid DESC);

CREATE INDEX idx_grouped_errors_group ON treadle.grouped_errors USING btree (group_id, failed_at, job_id);

CREATE INDEX idx_jobs_blocked ON treadle.jobs USING btree (id) WHERE (((status)::text = 'pending'::text) AND (holds <> 0));

CREATE INDEX idx_jobs_claimable ON treadle.jobs USING btree (queue, job_type, priority DESC, partition, run_at) WHERE (((status)::text = 'pending'::text) AND (holds = 0) AND (attempts < max_attempts));

CREATE INDEX idx_jobs_finished ON treadle.jobs USING btree (status, finished_at) WHERE ((status)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[]));

CREATE INDEX idx_jobs_key ON treadle.jobs USING btree (key, (
CASE status
    WHEN 'pending'::text THEN (1 + ((holds)::integer & 1))
    ELSE 0
END), id) WHERE ((key IS NOT NULL) AND ((status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])));

CREATE UNIQUE INDEX idx_jobs_key_running ON treadle.jobs USING btree (key) WHERE ((key IS NOT NULL) AND ((status)::text = ANY ((ARRAY['claimed'::character varying, 'running'::character varying])::text[])));

CREATE UNIQUE INDEX idx_jobs_unique ON treadle.jobs USING btree (unique_key, job_type) WHERE ((unique_key IS NOT NULL) AND ((status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])));

CREATE INDEX idx_jobs_worker ON treadle.jobs USING btree (worker_id) WHERE ((status)::text = ANY ((ARRAY['claimed'::character varying, 'running'::character varying])::text[]));

CREATE INDEX idx_lanes_active ON treadle.lanes USING btree (job_type, priority DESC, ((id + 0))) WHERE (dormant_xid IS NULL);
ALTER INDEX treadle.idx_lanes_active ALTER COLUMN 3 SET STATISTICS 0;

CREATE INDEX idx_lanes_active_queue ON treadle.lanes USING btree (job_type, queue, priority DESC, ((id + 0))) WHERE (dormant_xid IS NULL);
ALTER INDEX treadle.idx_lanes_active_queue ALTER COLUMN 4 SET STATISTICS 0;

CREATE INDEX idx_lanes_dormant ON treadle.lanes USING btree (dormant_xid) WHERE ((dormant_xid IS NOT NULL) AND (limit_name IS NULL));

CREATE INDEX idx_lanes_limit ON treadle.lanes USING btree (limit_name, limit_key, job_type, priority DESC, ((id + 0))) WHERE (limit_name IS NOT NULL);
ALTER INDEX treadle.idx_lanes_limit ALTER COLUMN 5 SET STATISTICS 0;

CREATE INDEX idx_lanes_listed ON treadle.lanes USING btree (id) WHERE ((dormant_xid IS NULL) OR (limit_name IS NOT NULL));

CREATE INDEX idx_lanes_type ON treadle.lanes USING btree (job_type, queue, priority, partition);

CREATE INDEX idx_lanes_wakes ON treadle.lanes USING btree (wakes_at, dormant_xid) WHERE ((dormant_xid IS NOT NULL) AND (limit_name IS NULL));

CREATE INDEX idx_limit_keys_changed ON treadle.limit_keys USING btree (name, key) WHERE (changed_by IS NOT NULL);

CREATE INDEX idx_limit_openings_key ON treadle.limit_openings USING btree (name, key, opens_at);

CREATE INDEX idx_member_changes_noted ON treadle.member_changes USING btree (noted_at);

CREATE INDEX idx_member_changes_workflow ON treadle.member_changes USING btree (workflow_id, noted_at);

CREATE INDEX idx_occurrences_decided ON treadle.occurrences USING btree (decided_at);

CREATE INDEX idx_schedules_next ON treadle.schedules USING btree (next_at NULLS FIRST) WHERE ((paused_at IS NULL) AND (retired_at IS NULL));

CREATE INDEX idx_stored_removing ON treadle.stored USING btree (removing_at) WHERE (removing_at IS NOT NULL);

CREATE INDEX idx_stored_uses_job ON treadle.stored_uses USING btree (job_id);

CREATE INDEX idx_unique_periods_end ON treadle.unique_periods USING btree (ends_at);

CREATE INDEX idx_unlisted_jobs ON treadle.unlisted_jobs USING btree (name, key);

CREATE INDEX idx_workflows_open ON treadle.workflows USING btree (id) WHERE is_open;

CREATE TRIGGER change_job BEFORE UPDATE OF status, holds, attempts, max_attempts, run_at, queue, job_type, priority, partition, finished_at ON treadle.jobs FOR EACH ROW WHEN (((old.finished_at IS NOT NULL) OR ((new.finished_at IS NULL) AND (((new.status)::text <> ALL ('{claimed,running}'::text[])) OR (((old.status)::text = 'pending'::text) AND (new.lease = old.lease)))))) EXECUTE FUNCTION treadle.change_job();

CREATE CONSTRAINT TRIGGER check_at_commit AFTER INSERT ON treadle.dependency_requests DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION treadle.check_at_commit();

CREATE TRIGGER check_identity BEFORE UPDATE OF key, partition ON treadle.jobs FOR EACH ROW EXECUTE FUNCTION treadle.check_identity();

CREATE CONSTRAINT TRIGGER confirm_blocked AFTER INSERT ON treadle.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((((new.holds)::integer & 1) = 1)) EXECUTE FUNCTION treadle.confirm_blocked();

CREATE TRIGGER drop_belongings AFTER DELETE ON treadle.jobs REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION treadle.drop_belongings();

CREATE TRIGGER job_deleted AFTER DELETE ON treadle.jobs FOR EACH ROW WHEN (((old.flags >= 2048) OR (old.key IS NOT NULL))) EXECUTE FUNCTION treadle.job_ended();

CREATE TRIGGER job_ended AFTER UPDATE OF status ON treadle.jobs FOR EACH ROW WHEN ((((new.status)::text <> ALL ('{claimed,running,completed}'::text[])) OR ((new.finished_at IS NOT NULL) AND ((new.flags >= 2048) OR (old.key IS NOT NULL))) OR (old.finished_at IS NOT NULL))) EXECUTE FUNCTION treadle.job_ended();

CREATE TRIGGER keep_worker BEFORE DELETE ON treadle.workers FOR EACH ROW WHEN ((old.lease IS NOT NULL)) EXECUTE FUNCTION treadle.keep_worker();

CREATE TRIGGER lane_deleted AFTER DELETE ON treadle.lanes FOR EACH ROW WHEN (((old.dormant_xid IS NULL) OR (old.limit_name IS NOT NULL))) EXECUTE FUNCTION treadle.move_epoch();

CREATE TRIGGER lane_idle AFTER UPDATE OF dormant_xid, limit_name ON treadle.lanes FOR EACH ROW WHEN ((((old.dormant_xid IS NULL) OR (old.limit_name IS NOT NULL)) AND (new.dormant_xid IS NOT NULL) AND (new.limit_name IS NULL))) EXECUTE FUNCTION treadle.move_epoch();

CREATE TRIGGER lanes_truncated AFTER TRUNCATE ON treadle.lanes FOR EACH STATEMENT EXECUTE FUNCTION treadle.move_epoch();

CREATE CONSTRAINT TRIGGER note_active_lane AFTER INSERT OR UPDATE ON treadle.lanes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.dormant_xid IS NULL)) EXECUTE FUNCTION treadle.note_lane_change();

CREATE TRIGGER note_changed_limit AFTER UPDATE OF kind, per ON treadle.limits FOR EACH ROW WHEN ((((old.kind)::text <> (new.kind)::text) OR ((old.per)::text <> (new.per)::text))) EXECUTE FUNCTION treadle.note_unlisted_limit();

CREATE CONSTRAINT TRIGGER note_limit AFTER INSERT OR DELETE ON treadle.limit_targets DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION treadle.note_lane_change();

CREATE TRIGGER note_limit_target AFTER INSERT ON treadle.limit_targets FOR EACH ROW WHEN (((new.name)::text <> ''::text)) EXECUTE FUNCTION treadle.note_unlisted_limit();

CREATE TRIGGER note_new_limit AFTER INSERT ON treadle.limits FOR EACH ROW EXECUTE FUNCTION treadle.note_unlisted_limit();

CREATE CONSTRAINT TRIGGER note_pause AFTER INSERT OR DELETE ON treadle.pauses DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION treadle.note_lane_change();

CREATE CONSTRAINT TRIGGER note_tick AFTER INSERT ON treadle.ticks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION treadle.note_tick();

CREATE CONSTRAINT TRIGGER notify_at_commit AFTER INSERT ON treadle.wake_requests DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION treadle.notify_at_commit();

CREATE TRIGGER prepare_job BEFORE INSERT ON treadle.jobs FOR EACH ROW WHEN (((new.run_at IS NULL) OR (new.key IS NOT NULL) OR ((new.status)::text <> 'pending'::text) OR (new.finished_at IS NOT NULL) OR (new.attempts IS NULL) OR (new.max_attempts IS NULL) OR ((new.partition)::text <> ''::text))) EXECUTE FUNCTION treadle.prepare_job();

CREATE TRIGGER register_lanes AFTER INSERT ON treadle.jobs REFERENCING NEW TABLE AS new_jobs FOR EACH STATEMENT WHEN ((current_setting('treadle.listed'::text, true) IS DISTINCT FROM 'on'::text)) EXECUTE FUNCTION treadle.register_lanes();

ALTER TABLE ONLY treadle.stored_parts
    ADD CONSTRAINT stored_parts_stored_id_fkey FOREIGN KEY (stored_id) REFERENCES treadle.stored(id);

ALTER TABLE ONLY treadle.stored_uses
    ADD CONSTRAINT stored_uses_stored_id_fkey FOREIGN KEY (stored_id) REFERENCES treadle.stored(id);
