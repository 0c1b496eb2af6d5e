-- For workflows all of whose jobs have ended, whose rows are locked. A workflow is a job that no worker claims: it waits for its jobs,
-- and then it has completed, or failed if one of them did not complete. It stays held: if one of its jobs is retried, it waits again.
create or replace function treadle.end_workflows(p_ids uuid[]) returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    update treadle.jobs as job
    set status = case when failed.job_id is null then 'completed' else 'failed' end,
        completed_at = case when failed.job_id is null then clock_timestamp() end,
        finished_at = clock_timestamp(),
        progress = case when failed.job_id is null then 100 else job.progress end,
        result = case when failed.job_id is null then inputs.result -> 'result' end,
        last_error = failed.reason
    from unnest(p_ids) as ended (id)
    cross join lateral (select treadle.results_for(ended.id) as result) as inputs
    left join lateral (
        select
            edge.job_id,
            case
                when source.id is null then format('job %s was deleted', edge.after_id)
                when exists (
                    select
                    from treadle.dependencies as cause
                    where cause.job_id = source.id
                      and cause.stopped
                ) then source.last_error
                else format('job %s (%s) ', source.id, source.job_type)
                    || case source.status when 'failed' then 'failed' else 'was cancelled' end
                    || coalesce(': ' || left(split_part(source.last_error, E'\n', 1), 300), '')
            end as reason
        from treadle.dependencies as edge
        left join treadle.jobs as source on source.id = edge.after_id
        where edge.job_id = ended.id
          and edge.stopped
        order by edge.after_id
        limit 1
    ) as failed on true
    where job.id = ended.id;

    perform treadle.announce(p_ids);
end
$$;

comment on function treadle.end_workflows(uuid[]) is 'Ends workflows all of whose jobs have ended.';
