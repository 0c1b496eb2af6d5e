-- Whether a limit has room for one more job, without a lock: it may be gone when a claim looks.
create or replace function treadle.has_room(p_name varchar, p_key varchar, p_now timestamptz) returns boolean
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_limit record;
begin
    select
        coalesce(own.amount, rule.amount) as amount, rule.period, rule.burst, holders.jobs, holders.leases, holders.weights,
        holders.full_at, holders.closed_until
    into v_limit
    from treadle.limits as rule
    left join treadle.limit_keys as own on own.name = rule.name and own.key = p_key
    left join lateral (
        select holders.*
        from treadle.limit_holders as holders
        where holders.name = p_name
          and holders.key = p_key
        order by holders.version desc
        limit 1
    ) as holders on true
    where rule.name = p_name;

    return case
        -- There is no such limit any more, or it was lifted.
        when v_limit.amount is null then true
        when v_limit.amount = 0 or v_limit.closed_until > p_now then false
        when v_limit.period is not null
            then coalesce(
                v_limit.full_at - (coalesce(v_limit.burst, v_limit.amount) - 1) * v_limit.period / v_limit.amount <= p_now, true
            )
        else v_limit.amount > (
            select coalesce(sum(held.weight), 0)
            from treadle.slots_in_use(v_limit.jobs, v_limit.leases, v_limit.weights) as held
        )
    end;
end
$$;

comment on function treadle.has_room(varchar, varchar, timestamptz) is 'Whether a limit has room for one more job.';
