-- Adds histograms, which are a JSON list of lists. A shorter one is of a version with fewer buckets, or has no counts.
create or replace function treadle.sum_counts(p_histograms jsonb) returns bigint[]
language plpgsql immutable
as $$
begin
    return array(
        select sum(bucket.jobs::bigint)::bigint
        from jsonb_array_elements(p_histograms) as histogram (counts)
        cross join lateral jsonb_array_elements_text(histogram.counts) with ordinality as bucket (jobs, nth)
        group by bucket.nth
        order by bucket.nth
    );
end
$$;
