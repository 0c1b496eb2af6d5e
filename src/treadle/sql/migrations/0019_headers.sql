-- Headers: named strings that are stored with a job, for middleware, such as the context of a trace.
alter table treadle.jobs add column headers jsonb;

comment on column treadle.jobs.headers is 'Named strings that are stored with the job, for middleware: for example, the context of a trace. Null if there are none.';
comment on table treadle.member_changes is 'By how much the counts of a workflow change: a row for each job that was added, failed, was cancelled or retried, and for each statement that completed some. A tick adds them up, so that no row is updated by every job.';

-- They have another signature.
drop function if exists treadle.claim_work(varchar, varchar[], int, varchar[]);
drop function if exists treadle.enqueue(varchar, jsonb, int, varchar, timestamptz, interval, varchar, int, jsonb);
drop function if exists treadle.enqueue_jobs(varchar, text[], int, varchar, timestamptz, interval, varchar[], int, text[]);
drop function if exists treadle.enqueue_with_options(varchar, text[], varchar[], varchar, interval, int, varchar[], interval, boolean, interval, timestamptz, int, varchar, timestamptz, interval, varchar[], int, text[], int, jsonb, jsonb);
drop function if exists treadle.find_workflow(uuid);
