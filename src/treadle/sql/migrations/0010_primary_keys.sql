-- Every table that a publication can contain has a primary key: without one, a publication for all tables makes every
-- DELETE from it fail. (wake_requests is unlogged, and therefore never published.)

-- First all locks that the migration and its triggers need, as in 0009.
do $$
declare
    v_end constant timestamptz := clock_timestamp() + interval '2 seconds';
begin
    loop
        begin
            lock table treadle.jobs in access exclusive mode;
            lock table treadle.errors, treadle.floors in access exclusive mode nowait;
            return;
        exception when lock_not_available then
            if clock_timestamp() > v_end then
                raise;
            end if;
        end;
        perform pg_sleep(0.005);
    end loop;
end
$$;

-- A small table: one row per lane and tick. A lane may get two floors in one transaction, so its columns are not unique.
alter table treadle.floors
    add column id bigint generated always as identity primary key;

comment on column treadle.floors.id is 'For replication only.';

-- Of each job at most one attempt fails at a time. The key also serves "the errors of this job", and their removal with it.
--
-- Building the index of a large table would take too long while it is locked, and rows that were written by hand may not be
-- unique: then the whole row is its identity, and `treadle doctor` shows how to build the index.
do $$
begin
    if pg_relation_size('treadle.errors') > 64 * 1024 * 1024 then
        alter table treadle.errors replica identity full;
        return;
    end if;
    alter table treadle.errors add primary key (job_id, failed_at);
    drop index treadle.idx_errors_job;
exception when unique_violation then
    alter table treadle.errors replica identity full;
end
$$;
