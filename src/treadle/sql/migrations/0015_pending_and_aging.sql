-- How many jobs may wait, and aging. See decision 32.

alter table treadle.limits
    add column when_full varchar(10) check (when_full in ('refuse', 'drop'));

comment on column treadle.limits.when_full is 'The limit is for jobs that wait, and this is what happens when it is reached: refuse the new ones, or drop (cancel) the oldest. Null: it is for jobs that run or start.';

comment on column treadle.limits.fair is 'Not a limit: the values of "per" take turns, or if that is empty, the job types. With a period, it is about aging: so many of a hundred claims begin with jobs that have waited for longer than the period.';

-- They have other parameters.
drop function if exists treadle.claim_lanes(varchar, timestamptz, xid[], int, int, varchar[], varchar[], varchar[], timestamptz[], boolean, varchar[]);
drop function if exists treadle.change_unique_jobs(treadle.jobs, text[], int[], varchar[], uuid[], varchar[], interval);
