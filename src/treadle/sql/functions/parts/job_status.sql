-- The status of a job as of now; null if there is none. A volatile function sees what was committed while the
-- statement that calls it waited for the job's row.
create or replace function treadle.job_status(p_id uuid) returns varchar
language plpgsql volatile
as $$
begin
    return (select job.status from treadle.jobs as job where job.id = p_id);
end
$$;
