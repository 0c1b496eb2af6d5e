-- Lost workers: jobs that ran on them are counted apart from those that crashed their process. See decision 25.

-- First all locks that the migration and its triggers need. Recovery locks jobs and then workers, the removal of a worker's
-- row the other way round: so it does not wait for workers while it has locked jobs.
do $$
declare
    v_end constant timestamptz := clock_timestamp() + interval '2 seconds';
begin
    loop
        begin
            lock table treadle.jobs in access exclusive mode;
            lock table treadle.workers in access exclusive mode nowait;
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

-- Null in almost all rows, where it takes no space.
alter table treadle.jobs
    add column losses int;

comment on column treadle.jobs.losses is 'How often its worker was lost as a whole while the job ran, since an attempt last failed by itself; null: never.';
comment on column treadle.jobs.crashes is 'How often the process in which the job ran has died.';
