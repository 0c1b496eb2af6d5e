-- Adds two histograms. One without counts may be null or empty; a shorter one is of a version with fewer buckets.
create or replace function treadle.add_counts(p_one bigint[], p_other bigint[]) returns bigint[]
language plpgsql immutable
as $$
begin
    return array(
        select coalesce(each.one, 0) + coalesce(each.other, 0)
        from unnest(p_one, p_other) with ordinality as each (one, other, nth)
        order by each.nth
    );
end
$$;

comment on function treadle.add_counts(bigint[], bigint[]) is 'Adds two histograms.';
