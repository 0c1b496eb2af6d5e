-- The partition of a job: the values of these arguments, or those that are given instead.
create or replace function treadle.partition_of(p_parts varchar[], p_data jsonb, p_given jsonb default null) returns varchar
language sql stable
return (
    select coalesce(nullif(coalesce(jsonb_object_agg(part.name, part.value), '{}')::text, '{}'), '')
    from (
        select part as name, coalesce(p_given ->> part::text, p_data ->> part::text) as value
        from (
            select unnest(p_parts)
            union
            select jsonb_object_keys(p_given)
        ) as known (part)
    ) as part
    where part.value is not null
);
