-- How many jobs a live worker runs at once, as operators have set it. Not a column of treadle.workers: a transaction that stays
-- open after such a change would lock the worker's row, and the worker could not renew its lease.
create table treadle.worker_concurrency (
    worker_id   varchar(100) primary key,
    concurrency int not null check (concurrency between 0 and 10000),
    changed_by  text not null,
    changed_at  timestamptz not null
);

comment on table treadle.worker_concurrency is 'How many jobs a worker runs at once, if an operator has changed it; otherwise it is workers.concurrency. See set_concurrency().';
comment on column treadle.worker_concurrency.concurrency is '0: the worker claims nothing.';
