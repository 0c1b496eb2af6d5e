-- A part of tick(): deletes the keys of limits that no job uses any more, of a sample; and ended jobs that no claim has listed.
create or replace function treadle.forget_limit_keys(p_now timestamptz) returns void
language plpgsql
as $$
declare
    c_keys constant double precision := 1000;
    -- Claims that have begun before a rate was full again, and have not yet looked at it, count from when they began.
    v_before constant timestamptz := p_now - interval '1 minute';
    v_rows double precision;
    v_key record;
begin
    delete from treadle.unlisted_jobs as noted
    where noted.id = any (array(
        select known.id
        from treadle.unlisted_jobs as known
        where not exists (select from treadle.slots_in_use(array[known.job], array[known.lease], array[known.weight]))
        limit c_keys::int
        for update skip locked
    ));

    select class.reltuples
    into v_rows
    from pg_class as class
    where class.oid = 'treadle.limit_keys'::regclass;

    for v_key in
        select known.name, known.key
        from treadle.limit_keys as known tablesample system (100 * least(1, c_keys / greatest(v_rows, c_keys)))
        where known.amount is null
        limit c_keys
        for update skip locked
    loop
        delete from treadle.limit_holders as holders
        where holders.name = v_key.name
          and holders.key = v_key.key
          and holders.full_at < v_before
          and holders.closed_until < p_now
          and not exists (
                select
                from treadle.slots_in_use(holders.jobs, holders.leases, holders.weights)
          );
        delete from treadle.limit_keys as known
        where known.name = v_key.name
          and known.key = v_key.key
          and not exists (
                select
                from treadle.limit_holders as holders
                where holders.name = v_key.name
                  and holders.key = v_key.key
          );
    end loop;
end
$$;
