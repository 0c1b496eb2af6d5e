-- Marks a claimed job as running. As in every function that writes for a worker: with p_lease the write is fenced, and
-- false means that the claim is lost and nothing changed. Without p_lease, the job is changed whichever worker has
-- claimed it.
--
-- With p_once, the attempt must not be repeated: if its process dies, the job fails. Returns false, too, if such an
-- attempt has already begun under this claim.
create or replace function treadle.start_job(
    p_id uuid,
    p_lease bigint default null,
    p_worker_id varchar default null,
    p_once boolean default false
) returns boolean
language plpgsql
as $$
begin
    update treadle.jobs as job
    set status = 'running',
        started_at = clock_timestamp(),
        progress = 0,
        current_stage = null,
        flags = case when p_once then job.flags | treadle.flag_once() else job.flags end
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id)
      and not (p_once and treadle.has_begun_once(job.status, job.flags));
    return found;
end
$$;
