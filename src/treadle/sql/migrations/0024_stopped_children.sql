-- Child processes that were stopped, which their worker does not notice: it waits for their jobs.
alter table treadle.workers
    add column stopped_children jsonb;

comment on column treadle.workers.stopped_children is 'Its child processes that were stopped, by a signal or a debugger, with the job that each one runs. Null: none. See report_stopped_children().';
