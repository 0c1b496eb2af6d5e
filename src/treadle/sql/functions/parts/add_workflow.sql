-- Adds the job that a workflow is. Its row in workflows exists.
create or replace function treadle.add_workflow(
    p_id uuid,
    p_data jsonb,
    p_returns boolean,
    p_open boolean default false,
    p_deadline double precision default null, -- in seconds
    p_plan jsonb default null,
    p_after jsonb default null,
    p_part jsonb default null -- the workflow that it is a part of: see add_members()
) returns void
language plpgsql
as $$
declare
    v_expires_at constant timestamptz := clock_timestamp() + p_deadline * interval '1 second';
begin
    insert into treadle.jobs (id, job_type, data, holds, flags, expires_at)
    values (
        p_id,
        'workflow',
        p_data,
        treadle.blocked_by_jobs(),
        treadle.flag_dependencies() | treadle.flag_workflow()
            | case when p_returns then treadle.flag_inputs() else 0::smallint end
            | case when p_part is not null then treadle.flag_member() | treadle.flag_counting() else 0::smallint end,
        v_expires_at
    );
    insert into treadle.expiries (look_at, job_id)
    select v_expires_at, p_id
    where v_expires_at is not null;
    update treadle.workflows as workflow
    set is_open = p_open or p_plan is not null,
        plan = p_plan
    where workflow.id = p_id
      and (p_open or p_plan is not null);
    if p_after is not null then
        perform treadle.add_dependencies(array[p_id], p_after);
    end if;
    if p_part is not null then
        perform treadle.add_members(array[p_id], p_part);
    end if;
end
$$;
