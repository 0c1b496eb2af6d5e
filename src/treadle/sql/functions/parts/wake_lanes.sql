-- Makes some of the lanes active that wait for these limits: as many of each as its element of p_most says, and at
-- most c_lanes. The next claims take care of the others.
create or replace function treadle.wake_lanes(p_now timestamptz, p_names varchar[], p_keys varchar[], p_most bigint[]) returns void
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_lanes constant int := 10;
begin
    update treadle.lanes as lane
    set changed_at = p_now,
        dormant_xid = null,
        limit_name = null,
        limit_key = null
    where lane.id = any (array(
            select known.id
            from unnest(p_names, p_keys, p_most) as open (name, key, most)
            cross join lateral (
                select known.id
                from treadle.lanes as known
                where known.limit_name = open.name
                  and known.limit_key = open.key
                order by known.priority desc
                limit least(open.most, c_lanes)
                for update skip locked
            ) as known
            where open.most > 0
          ));
    if not found then
        return;
    end if;

    insert into treadle.limit_openings (opens_at, name, key)
    select p_now, open.name, open.key
    from unnest(p_names, p_keys, p_most) as open (name, key, most)
    where open.most > 0
      and exists (
            select
            from treadle.lanes as known
            where known.limit_name = open.name
              and known.limit_key = open.key
      );
    perform treadle.wake_workers(p_now);
end
$$;
