-- How many jobs may wait. See decision 32.

alter table treadle.limits
    add column when_full varchar(10) check (when_full in ('refuse', 'drop'));

comment on column treadle.limits.when_full is 'The limit is for jobs that wait, and this is what happens when it is reached: refuse the new ones, or drop (cancel) the oldest. Null: it is for jobs that run or start.';
