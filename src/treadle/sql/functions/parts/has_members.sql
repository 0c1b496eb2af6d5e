create or replace function treadle.has_members(p_id uuid) returns boolean
language plpgsql stable
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    return exists (
        select
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
    );
end
$$;

comment on function treadle.has_members(uuid) is 'Whether jobs of a workflow exist.';
