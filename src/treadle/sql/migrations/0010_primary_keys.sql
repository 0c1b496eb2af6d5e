-- Every table that a publication can contain has a primary key: without one, a publication for all tables makes every
-- DELETE from it fail. (wake_requests is unlogged, and therefore never published.)

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
