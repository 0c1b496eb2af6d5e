-- Lost workers: jobs that ran on them are counted apart from those that crashed their process. See decision 25.

-- Null in almost all rows, where it takes no space.
alter table treadle.jobs
    add column losses int;

comment on column treadle.jobs.losses is 'How often its worker was lost as a whole while the job ran, since an attempt last failed by itself; null: never.';
comment on column treadle.jobs.crashes is 'How often the process in which the job ran has died.';
