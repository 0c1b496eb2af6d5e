-- Written by `make schema` from a migrated database; a test compares. Functions: src/treadle/sql/functions.

CREATE SCHEMA treadle;

COMMENT ON FUNCTION treadle.announce(p_ids uuid[], p_kind text) IS 'Part of ending jobs and of recording what they tell: sends their ids to whoever waits for them.';

COMMENT ON FUNCTION treadle.await_ends(p_for interval) IS 'Somebody listens to channel(''ends'') for this long: the ids of jobs that end are sent there. At most five minutes; ask again.';

COMMENT ON FUNCTION treadle.await_news(p_for interval) IS 'Somebody listens to channel(''news'') for this long: the ids of jobs with new events or progress are sent there. At most five minutes; ask again.';

COMMENT ON FUNCTION treadle.cancel_job(p_id uuid, p_reason text, p_lease bigint, p_worker_id character varying) IS 'Ends a job that has not ended yet; its holder, if it has one, loses the lease. False: it has ended already.';

COMMENT ON FUNCTION treadle.channel(p_kind text) IS 'The name to LISTEN to: "work" for workers (there may be something to claim, or to cancel), "ends" for the ids of jobs that ended.';

COMMENT ON FUNCTION treadle.new_id() IS 'A new time-ordered job id (uuid version 7).';


SET default_tablespace = '';

SET default_table_access_method = heap;

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
    queue character varying(50) DEFAULT 'default'::character varying NOT NULL,
    run_at timestamp with time zone NOT NULL,
    lease bigint DEFAULT 0 NOT NULL,
    holds smallint DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    key character varying(200),
    seen_at timestamp with time zone,
    finished_at timestamp with time zone,
    result jsonb,
    unique_key character varying(200),
    pace jsonb,
    checkpoint jsonb,
    keeps smallint DEFAULT 0 NOT NULL,
    CONSTRAINT valid_status CHECK (((status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying, 'completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])))
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_insert_scale_factor='0.05', autovacuum_analyze_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.jobs IS 'One row a job, from enqueue until it is pruned.';

COMMENT ON COLUMN treadle.jobs.run_at IS 'Not before this time; also the place in its lane. Left out on insert it follows created_at.';

COMMENT ON COLUMN treadle.jobs.lease IS 'Grows by one with every claim and with nothing else: the number that fences a holder''s writes.';

COMMENT ON COLUMN treadle.jobs.holds IS 'What a pending job waits for besides its time, as bits: 1 = an earlier job with the same key. Only 0 can be claimed.';

COMMENT ON COLUMN treadle.jobs.crashes IS 'How often it was recovered from a holder that went silent.';

COMMENT ON COLUMN treadle.jobs.key IS 'Jobs with the same key run one at a time, in the order they were enqueued.';

COMMENT ON COLUMN treadle.jobs.seen_at IS 'The holder''s last sign of life through this job, if it gave any.';

COMMENT ON COLUMN treadle.jobs.finished_at IS 'When it became completed, failed or cancelled.';

COMMENT ON COLUMN treadle.jobs.unique_key IS 'While this job has not ended, no other of its type with the same text is added.';

COMMENT ON COLUMN treadle.jobs.pace IS 'What the handler counts: done, total, rate a second and seconds left.';

COMMENT ON COLUMN treadle.jobs.checkpoint IS 'What the handler saved last; the next attempt finds it.';

COMMENT ON COLUMN treadle.jobs.keeps IS 'What else there is of this job, as bits: 1 = events, 2 = log lines, 4 = steps. Says what to remove with it.';

COMMENT ON FUNCTION treadle.claim_job_batch(p_worker_id character varying, p_job_types character varying[], p_batch_size integer) IS 'Claims up to p_batch_size pending jobs of the given types, highest priority first, then oldest: select * from "treadle".claim_job_batch(''worker-1'', ''{welcome}'').';

COMMENT ON FUNCTION treadle.claim_jobs(p_worker_id character varying, p_job_types character varying[], p_batch_size integer, p_queues character varying[]) IS 'Claims up to p_batch_size due jobs of the given types (in the given queues, or in all), highest priority first, then oldest.';

COMMENT ON FUNCTION treadle.complete_job(p_id uuid, p_result jsonb, p_lease bigint, p_worker_id character varying) IS 'A job is done, with its result. False: the lease is lost, or the job has ended already.';

COMMENT ON FUNCTION treadle.complete_jobs(p_ids uuid[], p_leases bigint[], p_worker_ids character varying[], p_results text[], p_seconds double precision[]) IS 'Completes claimed jobs, each fenced by its lease and worker, with results as JSON texts and how many seconds ago they began; returns the ids that were accepted.';

COMMENT ON FUNCTION treadle.confirm_hold() IS 'Trigger: at commit, lets a job go that nobody will let go any more.';

COMMENT ON FUNCTION treadle.count_minutes(p_lag interval, p_limit integer, p_keep interval) IS 'Counts what has ended since the last call in "treadle".minutes, for charts; returns how many rows of it changed. For whoever works, every few seconds.';

COMMENT ON FUNCTION treadle.drop_belongings() IS 'Trigger: removes the errors, events, log lines, steps and uses of deleted jobs.';

COMMENT ON FUNCTION treadle.drop_hold() IS 'Trigger: a job that is revived is not held behind its key.';

COMMENT ON FUNCTION treadle.enqueue(p_job_type character varying, p_data jsonb, p_priority integer, p_queue character varying, p_run_at timestamp with time zone, p_delay interval, p_key character varying, p_max_attempts integer) IS 'Enqueues one job and returns its id: select "treadle".enqueue(''welcome'', ''{"user_id": 7}'').';

COMMENT ON FUNCTION treadle.enqueue_jobs(p_job_type character varying, p_data text[], p_priority integer, p_queue character varying, p_run_at timestamp with time zone, p_delay interval, p_keys character varying[], p_max_attempts integer) IS 'Enqueues one job per element of p_data (JSON texts) and returns their ids in that order.';

COMMENT ON FUNCTION treadle.enqueue_unique(p_job_type character varying, p_unique character varying, p_data jsonb, p_priority integer, p_queue character varying, p_run_at timestamp with time zone, p_delay interval, p_key character varying, p_max_attempts integer) IS 'Enqueues one job, unless one of its type with the same p_unique has not ended: then returns the id of that one.';

COMMENT ON FUNCTION treadle.enter_lane() IS 'Trigger: places a job that becomes claimable at or above its lane''s floor.';

COMMENT ON FUNCTION treadle.fail_job(p_id uuid, p_error text, p_delay interval, p_final boolean, p_lease bigint, p_worker_id character varying, p_traceback text) IS 'An attempt failed: the job is tried again after p_delay (by default a growing one), or has failed if that was its last attempt or p_final is true. False: the lease is lost, or the job has ended already.';

COMMENT ON FUNCTION treadle.find_ended(p_ids uuid[]) IS 'Those of the jobs that have ended, or are not there any more.';

COMMENT ON FUNCTION treadle.find_jobs(p_status character varying, p_job_type character varying, p_queue character varying, p_worker_id character varying, p_key character varying, p_search text, p_exact uuid, p_rank integer, p_at timestamp with time zone, p_id uuid, p_limit integer, p_look integer, p_patience interval) IS 'A page of a list of jobs: those that fit, and with "last" where the look stopped. Its cost does not grow with the table.';

COMMENT ON FUNCTION treadle.find_pending(p_job_type character varying, p_queue character varying, p_worker_id character varying, p_search text, p_payloads boolean, p_from timestamp with time zone, p_priority integer, p_run_at timestamp with time zone, p_id uuid, p_limit integer, p_look integer, p_end timestamp with time zone) IS 'Part of find_jobs(): jobs that can be claimed, in the order in which they will be.';

COMMENT ON FUNCTION treadle.finish_step(p_id uuid, p_position integer, p_name character varying, p_result jsonb, p_lease bigint, p_worker_id character varying) IS 'Remembers that a step of a job is done, and its result. False: the lease is lost.';

COMMENT ON FUNCTION treadle.free_next() IS 'Trigger: when a job with a key ends, lets the next of its key go.';

COMMENT ON FUNCTION treadle.heartbeat(p_worker_id character varying) IS 'A worker says that it is alive; its jobs are not stale while it does.';

COMMENT ON FUNCTION treadle.held_jobs(p_worker_id character varying) IS 'What a worker holds.';

COMMENT ON FUNCTION treadle.is_head(p_key character varying, p_id uuid) IS 'Whether a job is the next of its key.';

COMMENT ON FUNCTION treadle.job_events(p_id uuid, p_number integer, p_lease bigint, p_phase integer, p_limit integer) IS 'The events of a job after a number, with its transitions among them, in order.';

COMMENT ON FUNCTION treadle.jobs_ahead(p_id uuid, p_limit integer) IS 'How many jobs the live workers that serve this one would take before it: in its lane, in others of its priority, in those of higher; p_limit + 1 at most in all.';

COMMENT ON FUNCTION treadle.keep_key() IS 'Trigger: refuses to change the key of a job that has not ended.';

COMMENT ON FUNCTION treadle.keep_logs(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_owners integer[], p_sequences integer[], p_levels integer[], p_loggers text[], p_messages text[], p_ages double precision[], p_head integer, p_tail integer) IS 'Writes the log lines of a worker''s jobs, fenced by their leases; keeps the first and the last of each; returns the jobs that were accepted.';

COMMENT ON FUNCTION treadle.lock_held(p_worker_id character varying, p_ids uuid[], p_leases bigint[]) IS 'Part of what a holder writes: locks those of the jobs that are still held under these leases, and returns them.';

COMMENT ON FUNCTION treadle.lost_leases(p_ids uuid[], p_leases bigint[]) IS 'Those claims that do not hold any more, and whether the job was completed under them.';

COMMENT ON FUNCTION treadle.operate(p_action character varying, p_ids uuid[], p_actor text, p_reason text, p_priority integer) IS 'What an operator does to jobs (retry, cancel, delete, run_now, priority), with a line in the audit for each; returns what came of each (done, unfit, busy, missing) and the status it had.';

COMMENT ON FUNCTION treadle.pause(p_job_type character varying, p_queue character varying, p_actor text, p_reason text) IS 'No more jobs of this type, in this queue (null: any), are claimed; those that are held go on. False: it was paused already.';

COMMENT ON FUNCTION treadle.prepare_job() IS 'Trigger: completes a job inserted by hand and holds it behind an earlier job with its key.';

COMMENT ON FUNCTION treadle.prune_jobs(p_status character varying, p_age interval, p_limit integer, p_after timestamp with time zone, OUT pruned integer, OUT reached timestamp with time zone) IS 'Deletes up to p_limit jobs that ended with p_status longer than p_age ago; returns how many, and the time up to which it came.';

COMMENT ON FUNCTION treadle.reads_fresh() IS 'Whether the transaction is READ COMMITTED: only then can it see what others just committed.';

COMMENT ON FUNCTION treadle.record_event(p_id uuid, p_name character varying, p_data jsonb, p_lease bigint, p_worker_id character varying) IS 'Adds an event to a job, numbered after those that it has. False: the lease is lost, or there is no such job.';

COMMENT ON FUNCTION treadle.record_events(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_owners integer[], p_sequences integer[], p_names character varying[], p_data text[], p_ages double precision[]) IS 'Writes the events that the handlers of a worker told, fenced by their leases; returns the jobs that were accepted.';

COMMENT ON FUNCTION treadle.recover_lost_workers(p_crash_limit integer, p_now timestamp with time zone) IS 'Gives back the jobs of workers that were silent for longer than their lease, and returns them; one call at a time.';

COMMENT ON FUNCTION treadle.recover_stale_jobs(p_timeout interval, p_now timestamp with time zone) IS 'Gives back the jobs of holders that were silent for longer than p_timeout; those without attempts left end as failed. Returns how many.';

COMMENT ON FUNCTION treadle.recover_worker(p_worker_id character varying, p_reason text, p_crashed uuid[], p_overdue uuid[], p_crash_limit integer, p_keep boolean) IS 'Gives back what a worker that is gone still held: p_crashed (null: those that ran) are counted as crashed, p_overdue as failed, the rest as nothing. Returns them with their new status.';

COMMENT ON FUNCTION treadle.register_lanes() IS 'Trigger: sees that the lanes of inserted jobs exist.';

COMMENT ON FUNCTION treadle.register_worker(p_worker_id character varying, p_lease interval, p_job_types character varying[], p_queues character varying[], p_concurrency integer, p_host text, p_pid integer, p_version text, p_process_types character varying[], p_children integer) IS 'A worker begins: if it is silent for longer than p_lease, its jobs are given to others.';

COMMENT ON FUNCTION treadle.release_job(p_id uuid, p_delay interval, p_lease bigint, p_worker_id character varying) IS 'A holder gives a job back without using an attempt: to its old place, or snoozed for p_delay. False: the lease is lost.';

COMMENT ON FUNCTION treadle.renew_workers(p_worker_ids character varying[], p_lease interval) IS 'These workers are alive; asked for again before p_lease has passed.';

COMMENT ON FUNCTION treadle.report_progress(p_id uuid, p_progress integer, p_stage character varying, p_lease bigint, p_worker_id character varying) IS 'Progress from 0 to 100 and the stage of a running job; null leaves either as it is. False: the lease is lost.';

COMMENT ON FUNCTION treadle.rest(p_job_types character varying[], p_queues character varying[], p_sure boolean) IS 'For a worker that found nothing: it will be woken by NOTIFY. Returns the seconds until the next job of these types is due, null if there is none.';

COMMENT ON FUNCTION treadle.resume(p_job_type character varying, p_queue character varying, p_actor text, p_reason text) IS 'Ends the pause of this type, in this queue (null: any), as it was made. False: there is none.';

COMMENT ON FUNCTION treadle.retry_delay(p_attempts integer) IS 'How long a job waits after its nth failed attempt, unless it is told otherwise.';

COMMENT ON FUNCTION treadle.retry_job(p_id uuid) IS 'Runs an ended job again, with at least one more attempt. False: it has not ended.';

COMMENT ON FUNCTION treadle.ring(p_due timestamp with time zone) IS 'Part of enqueueing: wakes workers that sleep, at most every 20 milliseconds.';

COMMENT ON FUNCTION treadle.sample_jobs(p_pages integer) IS 'About how many jobs there are by status, and by lane of those that are pending, from a sample of p_pages pages.';

COMMENT ON FUNCTION treadle.save_checkpoint(p_id uuid, p_checkpoint jsonb, p_lease bigint, p_worker_id character varying) IS 'What the next attempt of a job shall find. False: the lease is lost.';

COMMENT ON FUNCTION treadle.see_lanes(p_budget integer) IS 'The lanes, deepest first: how many jobs wait in each (counted up to counted_to), since when the first is due, and whether it is paused.';

COMMENT ON FUNCTION treadle.serving_workers(p_queue character varying, p_job_type character varying, p_now timestamp with time zone) IS 'The live workers that claim jobs of this type in this queue, the types that share a place there, and how many places there are.';

COMMENT ON FUNCTION treadle.settle_jobs(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_outcomes character varying[], p_errors text[], p_tracebacks text[], p_delays double precision[], p_seconds double precision[], p_crash_limit integer) IS 'How attempts ended that did not complete (retry, failed, cancelled, released, crashed), each fenced by its lease and worker; returns those that were accepted, with their new status.';

COMMENT ON FUNCTION treadle.stamp_finish() IS 'Trigger: keeps finished_at true when a statement by hand ends or revives a job.';

COMMENT ON FUNCTION treadle.start_job(p_id uuid, p_lease bigint, p_worker_id character varying) IS 'A claimed job begins to run. False: the lease is lost.';

COMMENT ON FUNCTION treadle.start_jobs(p_worker_id character varying, p_ids uuid[], p_leases bigint[], p_seconds double precision[], p_progress integer[], p_stages character varying[], p_paces text[]) IS 'Claimed jobs run, since so many seconds, with this progress, stage and pace (null: as before); returns the ids that were accepted.';

COMMENT ON FUNCTION treadle.sweep_stored(p_grace interval, p_limit integer, p_parts integer, OUT swept integer, OUT more boolean, OUT files uuid[], OUT places text[]) IS 'Removes what is stored and used by no job since p_grace, in small steps; returns how many, whether there is more to do, and the files to remove elsewhere.';

COMMENT ON FUNCTION treadle.take_jobs(p_worker_id character varying, p_now timestamp with time zone, p_places tid[]) IS 'Part of claim_jobs: marks locked rows as claimed.';

COMMENT ON FUNCTION treadle.tick(p_interval interval) IS 'Upkeep of the lanes, for whoever claims to call about twice a second; returns how many lanes it changed, 0 if another tick was just made.';

COMMENT ON FUNCTION treadle.tick_is_fresh() IS 'Part of claiming: whether the floors of the lanes can be trusted.';

COMMENT ON FUNCTION treadle.use_stored(p_job_ids uuid[], p_stored_ids uuid[]) IS 'Each of these jobs needs the stored thing beside it, until it is deleted; returns those that are not there any more.';

COMMENT ON FUNCTION treadle.wanted_lanes(p_job_types character varying[], p_queues character varying[], p_fresh boolean) IS 'Part of claiming: the lanes of these types that are not paused, with the time from which on a look for jobs has to begin.';

CREATE TABLE treadle.audit (
    id bigint NOT NULL,
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

COMMENT ON TABLE treadle.audit IS 'What operators changed, written in the transaction of the change. One row a job.';

COMMENT ON COLUMN treadle.audit.actor IS 'Who, as the program that asked for it says.';

COMMENT ON COLUMN treadle.audit.db_user IS 'The database user of that program, as PostgreSQL knows it.';

COMMENT ON COLUMN treadle.audit.details IS 'What it was before, and what was asked.';

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

CREATE SEQUENCE treadle.bell
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE treadle.errors (
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    failed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    worker_id character varying(100),
    error text NOT NULL,
    traceback text,
    lease bigint,
    started_at timestamp with time zone
);

COMMENT ON TABLE treadle.errors IS 'Each failed attempt of a job: when, on which worker, and why. They go with their job.';

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

COMMENT ON TABLE treadle.events IS 'What handlers told with job.event(), numbered per job. They go with their job.';

COMMENT ON COLUMN treadle.events.sequence IS 'The how-manieth of its lease: what is written twice is found by it. Null if told by hand.';

COMMENT ON COLUMN treadle.events.phase IS 'Its place among the transitions of its lease: see job_events().';

COMMENT ON COLUMN treadle.events.transaction IS 'Who wrote it. A reader of all events goes no further than the oldest transaction that still runs, and so skips none.';

CREATE TABLE treadle.functions (
    name text NOT NULL,
    digest text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE treadle.functions IS 'The functions as they were last applied: a changed file is applied again.';

CREATE TABLE treadle.horizon (
    only_row boolean DEFAULT true NOT NULL,
    era bigint DEFAULT 0 NOT NULL,
    mark_xid xid8 DEFAULT '0'::xid8 NOT NULL,
    look_after timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT horizon_only_row_check CHECK (only_row)
)
WITH (fillfactor='10');

COMMENT ON TABLE treadle.horizon IS 'How far the transactions that might still commit an older job have ended.';

COMMENT ON COLUMN treadle.horizon.look_after IS 'When a tick may look at the held jobs again.';

CREATE TABLE treadle.lanes (
    id bigint NOT NULL,
    queue character varying(50) NOT NULL,
    job_type character varying(50) NOT NULL,
    priority integer NOT NULL,
    opened_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    floor timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    settled timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    mark timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    mark_era bigint DEFAULT 0 NOT NULL,
    close_era bigint
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='50', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE treadle.lanes IS 'The queue, job type and priority combinations that hold or held jobs, with where a claim starts to look.';

COMMENT ON COLUMN treadle.lanes.floor IS 'Claims look from here on, while the last tick is fresh: a hint.';

COMMENT ON COLUMN treadle.lanes.settled IS 'Nothing claimable lies below this, now or later: a fact. Claims start here when the tick is stale.';

COMMENT ON COLUMN treadle.lanes.mark IS 'Becomes settled once every transaction that could not see it has ended.';

COMMENT ON COLUMN treadle.lanes.mark_era IS 'The horizon''s era in which mark was written.';

COMMENT ON COLUMN treadle.lanes.close_era IS 'The era in which an unused lane was given notice; it is deleted two eras later unless a job came.';

ALTER TABLE treadle.lanes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME treadle.lanes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

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

COMMENT ON TABLE treadle.logs IS 'What handlers logged: the first and the last lines of each job. They go with their job.';

CREATE TABLE treadle.meter (
    only_row boolean DEFAULT true NOT NULL,
    reached timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT meter_only_row_check CHECK (only_row)
)
WITH (fillfactor='10');

COMMENT ON TABLE treadle.meter IS 'Up to when ends were counted in minutes.';

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
    ran double precision DEFAULT 0 NOT NULL,
    ran_most double precision DEFAULT 0 NOT NULL
)
WITH (fillfactor='70');

COMMENT ON TABLE treadle.minutes IS 'What ended in each minute, for charts: counted by the workers a few seconds later, kept for a week.';

COMMENT ON COLUMN treadle.minutes.errors IS 'Attempts that failed, those that were tried again included.';

COMMENT ON COLUMN treadle.minutes.waited IS 'The seconds that the completed ones waited after they were due, added up.';

COMMENT ON COLUMN treadle.minutes.ran IS 'The seconds that they ran, added up.';

CREATE TABLE treadle.pauses (
    job_type character varying(50) DEFAULT ''::character varying NOT NULL,
    queue character varying(50) DEFAULT ''::character varying NOT NULL,
    paused_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    paused_by text,
    reason text
);

COMMENT ON TABLE treadle.pauses IS 'What is not claimed for now: a job type, a queue, a job type in a queue, or (both empty) everything.';

COMMENT ON COLUMN treadle.pauses.job_type IS 'Empty: every type.';

COMMENT ON COLUMN treadle.pauses.queue IS 'Empty: every queue.';

CREATE TABLE treadle.steps (
    job_id uuid NOT NULL,
    "position" integer NOT NULL,
    name character varying(200) NOT NULL,
    result jsonb,
    lease bigint NOT NULL,
    done_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE treadle.steps IS 'Steps of jobs that are done and need not be done again, with what came of them. They go with their job.';

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

COMMENT ON TABLE treadle.stored IS 'One row a stored thing: what Stored in a payload or a result refers to.';

COMMENT ON COLUMN treadle.stored.size IS 'How many bytes; null until all of them are written, and until then nobody can refer to it.';

COMMENT ON COLUMN treadle.stored.digest IS 'SHA-256, in hexadecimal.';

COMMENT ON COLUMN treadle.stored.place IS 'The folder or object store (a URL) that its file is in; null: its bytes are in stored_parts.';

COMMENT ON COLUMN treadle.stored.written_at IS 'When something was last written to it. Nothing is swept for a while after that.';

COMMENT ON COLUMN treadle.stored.removing_at IS 'It is being removed, and cannot be used any more; when the removal of its file was last begun.';

CREATE TABLE treadle.stored_parts (
    stored_id uuid NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY treadle.stored_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

COMMENT ON TABLE treadle.stored_parts IS 'The bytes of what is stored here: 256 kB a part, numbered from 0, the last one shorter.';

CREATE TABLE treadle.stored_uses (
    stored_id uuid NOT NULL,
    job_id uuid NOT NULL
);

COMMENT ON TABLE treadle.stored_uses IS 'Which job needs what is stored. A use goes with its job; without one the stored thing is swept.';

CREATE SEQUENCE treadle.tick_clock
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE treadle.watched
    START WITH 0
    INCREMENT BY 1
    MINVALUE 0
    NO MAXVALUE
    CACHE 1;

CREATE TABLE treadle.workers (
    worker_id character varying(100) NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lease interval,
    lost_at timestamp with time zone,
    job_types character varying(50)[],
    queues character varying(50)[],
    concurrency integer,
    host text,
    pid integer,
    version text,
    process_types character varying(50)[],
    children integer
)
WITH (fillfactor='50');

COMMENT ON TABLE treadle.workers IS 'Workers that send heartbeats: one row each, never a write per job.';

COMMENT ON COLUMN treadle.workers.lease IS 'How long it may be silent before its jobs are given to others; null for heartbeats by hand.';

COMMENT ON COLUMN treadle.workers.lost_at IS 'When it was given up. It keeps its row for a day, so that a claim of it that arrives late is found.';

COMMENT ON COLUMN treadle.workers.version IS 'Of Treadle, as the worker has it.';

COMMENT ON COLUMN treadle.workers.process_types IS 'Those of its job types that run in child processes: they have places of their own.';

COMMENT ON COLUMN treadle.workers.children IS 'How many of those run at once; concurrency is for the others.';

ALTER TABLE ONLY treadle.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (job_id, number);

ALTER TABLE ONLY treadle.functions
    ADD CONSTRAINT functions_pkey PRIMARY KEY (name);

ALTER TABLE ONLY treadle.horizon
    ADD CONSTRAINT horizon_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY treadle.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.logs
    ADD CONSTRAINT logs_pkey PRIMARY KEY (job_id, number);

ALTER TABLE ONLY treadle.meter
    ADD CONSTRAINT meter_pkey PRIMARY KEY (only_row);

ALTER TABLE ONLY treadle.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY treadle.minutes
    ADD CONSTRAINT minutes_pkey PRIMARY KEY (minute, queue, job_type);

ALTER TABLE ONLY treadle.pauses
    ADD CONSTRAINT pauses_pkey PRIMARY KEY (job_type, queue);

ALTER TABLE ONLY treadle.steps
    ADD CONSTRAINT steps_pkey PRIMARY KEY (job_id, "position");

ALTER TABLE ONLY treadle.stored_parts
    ADD CONSTRAINT stored_parts_pkey PRIMARY KEY (stored_id, part);

ALTER TABLE ONLY treadle.stored
    ADD CONSTRAINT stored_pkey PRIMARY KEY (id);

ALTER TABLE ONLY treadle.stored_uses
    ADD CONSTRAINT stored_uses_pkey PRIMARY KEY (stored_id, job_id);

ALTER TABLE ONLY treadle.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (worker_id);

CREATE INDEX idx_audit_job ON treadle.audit USING btree (job_id) WHERE (job_id IS NOT NULL);

CREATE INDEX idx_errors_failed_at ON treadle.errors USING btree (failed_at);

CREATE INDEX idx_errors_job ON treadle.errors USING btree (job_id);

CREATE INDEX idx_events_transaction ON treadle.events USING btree (transaction, job_id, number);

CREATE INDEX idx_jobs_claimable ON treadle.jobs USING btree (queue, job_type, priority DESC, run_at) WHERE (((status)::text = 'pending'::text) AND (holds = 0) AND (attempts < max_attempts));

CREATE INDEX idx_jobs_finished ON treadle.jobs USING btree (status, finished_at) WHERE ((status)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[]));

CREATE INDEX idx_jobs_held ON treadle.jobs USING btree (id) WHERE (((status)::text = 'pending'::text) AND (holds <> 0));

CREATE INDEX idx_jobs_key ON treadle.jobs USING btree (key, (
CASE status
    WHEN 'pending'::text THEN (1 + ((holds)::integer & 1))
    ELSE 0
END), id) WHERE ((key IS NOT NULL) AND ((status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])));

CREATE UNIQUE INDEX idx_jobs_key_running ON treadle.jobs USING btree (key) WHERE ((key IS NOT NULL) AND ((status)::text = ANY ((ARRAY['claimed'::character varying, 'running'::character varying])::text[])));

CREATE UNIQUE INDEX idx_jobs_unique ON treadle.jobs USING btree (unique_key, job_type) WHERE ((unique_key IS NOT NULL) AND ((status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])));

CREATE INDEX idx_jobs_worker ON treadle.jobs USING btree (worker_id) WHERE ((status)::text = ANY ((ARRAY['claimed'::character varying, 'running'::character varying])::text[]));

CREATE INDEX idx_lanes_type ON treadle.lanes USING btree (job_type, queue, priority);

CREATE INDEX idx_stored_removing ON treadle.stored USING btree (removing_at) WHERE (removing_at IS NOT NULL);

CREATE INDEX idx_stored_uses_job ON treadle.stored_uses USING btree (job_id);

CREATE CONSTRAINT TRIGGER confirm_hold AFTER INSERT ON treadle.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((((new.holds)::integer & 1) = 1)) EXECUTE FUNCTION treadle.confirm_hold();

CREATE TRIGGER drop_belongings AFTER DELETE ON treadle.jobs REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION treadle.drop_belongings();

CREATE TRIGGER drop_hold BEFORE UPDATE ON treadle.jobs FOR EACH ROW WHEN ((((old.status)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])) AND ((new.status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])) AND (((new.holds)::integer & 1) = 1))) EXECUTE FUNCTION treadle.drop_hold();

CREATE TRIGGER enter_lane BEFORE UPDATE ON treadle.jobs FOR EACH ROW WHEN ((((new.status)::text = 'pending'::text) AND (new.holds = 0) AND (new.attempts < new.max_attempts) AND (((((old.status)::text = 'pending'::text) AND (old.holds = 0) AND (old.attempts < old.max_attempts)) IS NOT TRUE) OR (old.run_at > new.run_at) OR (((old.queue)::text <> (new.queue)::text) OR ((old.job_type)::text <> (new.job_type)::text) OR (old.priority <> new.priority))))) EXECUTE FUNCTION treadle.enter_lane();

CREATE TRIGGER free_next AFTER UPDATE ON treadle.jobs FOR EACH ROW WHEN (((old.key IS NOT NULL) AND (((old.holds)::integer & 1) = 0) AND ((old.status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])) AND ((new.status)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])))) EXECUTE FUNCTION treadle.free_next();

CREATE TRIGGER free_next_deleted AFTER DELETE ON treadle.jobs FOR EACH ROW WHEN (((old.key IS NOT NULL) AND (((old.holds)::integer & 1) = 0) AND ((old.status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])))) EXECUTE FUNCTION treadle.free_next();

CREATE TRIGGER keep_key BEFORE UPDATE OF key ON treadle.jobs FOR EACH ROW WHEN ((((old.key)::text IS DISTINCT FROM (new.key)::text) AND ((old.status)::text = ANY ((ARRAY['pending'::character varying, 'claimed'::character varying, 'running'::character varying])::text[])))) EXECUTE FUNCTION treadle.keep_key();

CREATE TRIGGER prepare_job BEFORE INSERT ON treadle.jobs FOR EACH ROW WHEN (((new.run_at IS NULL) OR (new.key IS NOT NULL))) EXECUTE FUNCTION treadle.prepare_job();

CREATE TRIGGER register_lanes AFTER INSERT ON treadle.jobs REFERENCING NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION treadle.register_lanes();

CREATE TRIGGER stamp_finish BEFORE INSERT OR UPDATE ON treadle.jobs FOR EACH ROW WHEN ((((new.status)::text = ANY ((ARRAY['completed'::character varying, 'failed'::character varying, 'cancelled'::character varying])::text[])) <> (new.finished_at IS NOT NULL))) EXECUTE FUNCTION treadle.stamp_finish();

ALTER TABLE ONLY treadle.stored_parts
    ADD CONSTRAINT stored_parts_stored_id_fkey FOREIGN KEY (stored_id) REFERENCES treadle.stored(id);

ALTER TABLE ONLY treadle.stored_uses
    ADD CONSTRAINT stored_uses_stored_id_fkey FOREIGN KEY (stored_id) REFERENCES treadle.stored(id);
