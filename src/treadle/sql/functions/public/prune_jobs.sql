-- Deletes up to p_limit jobs that finished with p_status more than p_age ago. With p_after null, goes on where the last
-- such call stopped. Returns how many, and the time that it reached: pass it as p_after of the next call, which then
-- skips the dead index entries of this one.
--
-- Workers pass null: otherwise an open snapshot, which keeps the index entries of deleted jobs, would make every call
-- read all of them, until none finishes in time. Jobs may remain below the place: they were locked, other jobs waited
-- for them, they were committed late, or the clock was set back. To find them, each call also reads a part of the
-- table, all of it within a day. The clock selects the part, so a call that deletes nothing writes nothing.
create or replace function treadle.prune_jobs(
    p_status varchar,
    p_age interval,
    p_limit int default 1000,
    p_after timestamptz default '-infinity',
    out pruned int,
    out reached timestamptz
)
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_parts constant int := 1440; -- minutes of a day: workers call once a minute
    c_pages constant int := 64;
    v_before constant timestamptz := treadle.clock_before(p_age, clock_timestamp());
    v_after timestamptz := p_after;
    v_places tid[];
    v_below tid[] := '{}';
    v_pages bigint;
    v_width bigint;
    v_first bigint;
    v_workflows uuid[];
    v_parts int := 0;
begin
    if p_after is null then
        -- One at a time: two would read the same.
        if not pg_try_advisory_xact_lock(hashtext('treadle prune'), hashoid('treadle.pruned'::regclass)) then
            pruned := 0;
            return;
        end if;

        select known.reached
        into v_after
        from treadle.pruned as known
        where known.status = p_status
          and known.reached <= clock_timestamp()
        order by known.reached desc
        limit 1;
        v_after := coalesce(v_after, '-infinity');

        -- Twice the part of this minute: the calls are not exactly a minute apart.
        v_pages := pg_relation_size('treadle.jobs') / current_setting('block_size')::int;
        v_width := c_pages + 2 * v_pages / c_parts;
        v_first := floor(extract(epoch from clock_timestamp()) / 60)::bigint % c_parts * v_pages / c_parts;
        v_first := greatest(least(v_first, v_pages - v_width), 0);
        v_below := array(
            select job.ctid
            from (
                select job.ctid, job.status, job.finished_at, job.flags
                from treadle.jobs as job
                where job.ctid >= format('(%s,0)', v_first)::tid
                  and job.ctid < format('(%s,0)', v_first + v_width)::tid
                offset 0 -- not by idx_jobs_finished
            ) as job
            where job.status = p_status
              and job.finished_at < v_before
              and job.finished_at < v_after
              and job.flags & treadle.flag_member() = 0
            limit p_limit
        );
    end if;

    select array_agg(old.place), max(old.finished_at)
    into v_places, reached
    from (
        select job.ctid as place, job.finished_at
        from treadle.jobs as job
        where job.status in ('completed', 'failed', 'cancelled')
          and job.status = p_status
          and job.finished_at >= v_after
          and job.finished_at < v_before
          and job.flags & treadle.flag_member() = 0 -- deleted with the workflow
        order by job.finished_at
        limit p_limit
        for update skip locked
    ) as old;

    if v_below <> '{}' then
        v_places := v_places || array(
            select job.ctid
            from treadle.jobs as job
            where job.ctid = any (v_below)
              and job.status = p_status
              and job.finished_at < v_before
            for update skip locked
        );
    end if;

    -- Not those that others still wait for. Ids are ordered by time: one search shows whether there can be any.
    if exists (
        select
        from treadle.dependencies as edge
        where edge.after_id >= (select job.id from treadle.jobs as job where job.ctid = any (v_places) order by job.id limit 1)
          and edge.after_id <= (select job.id from treadle.jobs as job where job.ctid = any (v_places) order by job.id desc limit 1)
    ) then
        v_places := array(
            select job.ctid
            from treadle.jobs as job
            where job.ctid = any (v_places)
              and not exists (
                    select
                    from treadle.dependencies as edge
                    join treadle.jobs as waiting on waiting.id = edge.job_id
                    where edge.after_id = job.id
                      and waiting.finished_at is null
              )
        );
    end if;

    -- Workflows: first their jobs, and theirs.
    v_workflows := array(
        select job.id
        from treadle.jobs as job
        where job.ctid = any (v_places)
          and job.flags & treadle.flag_workflow() <> 0
    );
    if v_workflows <> '{}' then
        v_parts := treadle.delete_members(v_workflows, p_limit);
        v_places := array(
            select job.ctid
            from treadle.jobs as job
            where job.ctid = any (v_places)
              and not exists (
                    select
                    from treadle.dependencies as edge
                    join treadle.jobs as member on member.id = edge.after_id
                    where edge.job_id = job.id
                      and edge.needs = 'member'
                      and job.flags & treadle.flag_workflow() <> 0
              )
        );
        if v_parts >= p_limit then
            -- The next call deletes more of them.
            reached := least(reached, (select min(job.finished_at) from treadle.jobs as job where job.id = any (v_workflows)));
        end if;
    end if;

    delete from treadle.jobs as job
    where job.ctid = any (v_places);

    get diagnostics pruned = row_count;
    pruned := pruned + v_parts;

    if p_after is null and reached > v_after then
        insert into treadle.pruned (status, reached)
        values (p_status, prune_jobs.reached);
        delete from treadle.pruned as known
        where known.status = p_status
          and known.reached <> prune_jobs.reached;
    end if;
end
$$;
