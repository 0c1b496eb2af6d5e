-- The arguments of a job that are results of others.
create or replace function treadle.results_for(p_id uuid) returns jsonb
language plpgsql stable
set treadle.plan = nested_loops
as $$
begin
    return (
        select coalesce(jsonb_object_agg(input.argument, input.value), '{}')
        from (
            select
                part.argument,
                case
                    when bool_and(edge.nth is null) then (array_agg(coalesce(source.result, 'null')))[1]
                    else jsonb_agg(coalesce(source.result, 'null') order by edge.nth, edge.after_id)
                end as value
            from treadle.dependencies as edge
            cross join unnest(edge.arguments) as part (argument)
            left join treadle.jobs as source on source.id = edge.after_id and source.status = 'completed'
            where edge.job_id = p_id
            group by part.argument
        ) as input
    );
end
$$;
