-- Gives a claimed job back without using an attempt: to its old place, or due after p_delay. Returns false if the
-- claim is lost. Checks the fence, then ends the attempt as settle_jobs() does.
create or replace function treadle.release_job(
    p_id uuid,
    p_delay interval default null,
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_job record;
begin
    select job.lease, job.worker_id
    into v_job
    from treadle.jobs as job
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id)
    for no key update;
    if not found then
        return false;
    end if;

    perform treadle.settle_jobs(
        v_job.worker_id,
        array[p_id],
        array[v_job.lease],
        array['released']::varchar[],
        p_delays => array[extract(epoch from v_now + p_delay - v_now)]::double precision[]
    );
    return true;
end
$$;
