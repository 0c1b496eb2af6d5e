-- Those of the claims that are lost, because the job was cancelled, recovered, finished or claimed again; and whether
-- the job was completed under the claim.
create or replace function treadle.find_lost_claims(p_ids uuid[], p_leases bigint[])
returns table (id uuid, completed boolean)
language plpgsql
set treadle.plan = nested_loops
as $$
#variable_conflict use_column
begin
    return query
    select mine.id, job.lease = mine.lease and job.status = 'completed'
    from unnest(p_ids, p_leases) as mine (id, lease)
    left join treadle.jobs as job on job.id = mine.id
    where job.id is null
       or job.lease <> mine.lease
       or job.status not in ('claimed', 'running');
end
$$;
