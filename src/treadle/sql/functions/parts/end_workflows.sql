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
    set status = case when failed.id is null then 'completed' else 'failed' end,
        completed_at = case when failed.id is null then clock_timestamp() end,
        finished_at = clock_timestamp(),
        progress = case when failed.id is null then 100 else job.progress end,
        result = case when failed.id is null then treadle.results_for(job.id) -> 'result' end,
        last_error = case when failed.id is not null then treadle.describe_end(failed.id) end
    from unnest(p_ids) as ended (id)
    left join lateral (
        select edge.after_id as id
        from treadle.dependencies as edge
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
