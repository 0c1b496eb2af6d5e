-- The highest id of the unfinished jobs with this key. One look-up in idx_jobs_key per rank: see key_rank().
create or replace function treadle.newest_of_key(p_key varchar) returns uuid
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_newest uuid;
begin
    select newest.id
    into v_newest
    from generate_series(0, 2) as rank
    cross join lateral (
        select job.id
        from treadle.jobs as job
        where job.key = p_key
          and job.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(job.status, job.holds) = rank
        order by job.id desc
        limit 1
    ) as newest
    order by newest.id desc
    limit 1;
    return v_newest;
end
$$;
