-- Workers whose event loop does not run, and what became of the jobs of lost ones.
alter table treadle.workers
    add column stuck_since timestamptz,
    add column stuck_kind varchar(20),
    add column stuck_job uuid,
    add column stuck_job_type varchar(50),
    add column stuck_stack text,
    add column lost_because text,
    add column jobs_given_back int,
    add column jobs_failed int;

comment on column treadle.workers.stuck_since is 'When its event loop last ran, if that is some seconds ago although its lease is renewed. Null: it runs. See report_stuck().';
comment on column treadle.workers.stuck_kind is 'stopped: its process was stopped, by a signal or a debugger; blocked: something blocks its event loop.';
comment on column treadle.workers.stuck_job is 'The job that blocks its event loop, if it is known.';
comment on column treadle.workers.stuck_stack is 'Where its event loop is blocked, if it is known.';
comment on column treadle.workers.lost_because is 'Why it was declared lost.';
comment on column treadle.workers.jobs_given_back is 'How many of its jobs were pending again when it was lost.';
comment on column treadle.workers.jobs_failed is 'How many of its jobs ended when it was lost, because they have crashed too often or have no attempts left.';
