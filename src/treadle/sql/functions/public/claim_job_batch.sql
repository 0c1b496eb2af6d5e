-- Claims up to p_batch_size pending jobs of the given types, highest priority first, then oldest: select * from
-- treadle.claim_job_batch('worker-1', '{welcome}'). This is claim_jobs() as the specification has it.
create or replace function treadle.claim_job_batch(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int default 10
) returns setof treadle.jobs
language plpgsql
as $$
begin
    return query select * from treadle.claim_jobs(p_worker_id, p_job_types, p_batch_size);
end
$$;
