-- Locks those of the jobs that are still claimed by the worker under these lease numbers, and returns their ids. Until
-- the transaction ends, no other transaction can claim or finish them. Functions that write the records of a worker's
-- jobs call it first.
create or replace function treadle.lock_claimed(p_worker_id varchar, p_ids uuid[], p_leases bigint[]) returns uuid[]
language plpgsql
set treadle.plan = cached_index_ranges
as $$
begin
    return (
        select coalesce(array_agg(claimed.id), '{}')
        from (
            select job.id
            from unnest(p_ids, p_leases) as mine (id, lease)
            join treadle.jobs as job on job.id = mine.id
            where job.lease = mine.lease
              and job.worker_id is not distinct from p_worker_id
              and job.status <> 'pending'
              and job.finished_at is null
            order by job.id
            for no key update of job
        ) as claimed
    );
end
$$;
