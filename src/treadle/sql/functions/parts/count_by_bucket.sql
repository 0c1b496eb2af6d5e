-- A histogram: how many of the times lie in each bucket of time_buckets(), and at last how many are longer. Nulls
-- are not counted.
create or replace function treadle.count_by_bucket(p_seconds double precision[]) returns bigint[]
language plpgsql immutable
as $$
begin
    return array(
        select coalesce(found.jobs, 0)
        from generate_series(0, cardinality(treadle.time_buckets())) as bucket (nth)
        left join (
            select width_bucket(given.seconds, treadle.time_buckets()) as nth, count(*) as jobs
            from unnest(p_seconds) as given (seconds)
            where given.seconds is not null
            group by 1
        ) as found on found.nth = bucket.nth
        order by bucket.nth
    );
end
$$;
