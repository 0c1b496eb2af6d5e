-- For jobs that wait no longer, whose rows are locked. They are due from now on, one after the other, in the order of their ids; and
-- get the results that are their arguments. Those of jobs that did not complete are null.
create or replace function treadle.free_waiting(p_ids uuid[]) returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    update treadle.jobs as job
    set holds = job.holds & ~treadle.blocked_by_jobs(),
        run_at = greatest(job.run_at, v_now + freed.nth * interval '1 microsecond'),
        data = job.data || coalesce(inputs.data, '{}')
    from (
        select each.id, row_number() over (order by each.id) - cardinality(p_ids) as nth
        from unnest(p_ids) as each (id)
    ) as freed
    cross join lateral (
        select jsonb_object_agg(input.argument, input.value) as data
        from (
            select
                part.argument,
                case
                    when bool_and(edge.nth is null) then (array_agg(coalesce(source.result, 'null')))[1]
                    else jsonb_agg(coalesce(source.result, 'null') order by edge.nth)
                end as value
            from treadle.jobs as own
            join treadle.dependencies as edge on edge.job_id = own.id
            cross join unnest(edge.arguments) as part (argument)
            left join treadle.jobs as source on source.id = edge.after_id and source.status = 'completed'
            where own.id = freed.id
              and own.keeps & treadle.keeps_inputs() <> 0
            group by part.argument
        ) as input
    ) as inputs
    where job.id = freed.id;

    -- Stored objects that the results refer to.
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct known.stored_id, edge.job_id
    from treadle.jobs as own
    join treadle.dependencies as edge on edge.job_id = own.id
    join treadle.stored_uses as known on known.job_id = edge.after_id
    where own.id = any (p_ids)
      and own.keeps & treadle.keeps_inputs() <> 0
      and edge.arguments is not null
    on conflict do nothing;
end
$$;

comment on function treadle.free_waiting(uuid[]) is 'Lets jobs run that waited for others.';
