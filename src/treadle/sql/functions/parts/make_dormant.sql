-- Makes those of these lanes dormant that have had no due jobs for some time, for a claim that has searched many lanes
-- for nothing: thousands of lanes can run empty between two ticks. A transaction that saw one of them active, and
-- commits a job later, is found by the next tick: it examines every lane that became dormant in a transaction that has
-- ended since the last one, or that others which have ended since may not have seen.
--
-- p_ids are the rows that the claim has listed: a transaction may rely on one that was added since.
create or replace function treadle.make_dormant(p_ids bigint[], p_now timestamptz) returns void
language plpgsql
set treadle.plan = callers
as $$
declare
    c_unused constant interval := '1 minute'; -- as in public/tick.sql
    c_unused_soon constant interval := '2 seconds';
begin
    -- An older snapshot does not see the jobs that were committed since.
    if not treadle.is_read_committed() then
        return;
    end if;

    update treadle.lanes as lane
    set dormant_xid = pg_current_xact_id(),
        wakes_at = empty.wakes_at
    from (
        select known.id, head.run_at as wakes_at
        from treadle.lanes as known
        left join lateral treadle.lane_floor(row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane) as bound
            on true
        left join lateral treadle.lane_head(
            row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane,
            coalesce(bound.floor, '-infinity')
        ) as head on true
        where known.id = any (p_ids)
          and known.dormant_xid is null
          and greatest(known.changed_at, bound.floor) < p_now - c_unused_soon
          and coalesce(head.run_at > p_now + c_unused, true)
        for update of known skip locked
    ) as empty
    where lane.id = empty.id;
end
$$;
