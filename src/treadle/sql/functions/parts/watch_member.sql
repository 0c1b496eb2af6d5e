-- Watches one of the jobs of a workflow that have not ended: marks it, so that whoever ends it comes back to the
-- workflow.
create or replace function treadle.watch_member(p_id uuid, p_past uuid) returns void
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_read constant int := 50000;
    c_tried constant int := 10;
    v_left uuid[];
    v_read int;
    v_reached uuid;
    v_watched uuid;
begin
    select (array_agg(member.id order by member.id desc) filter (where member.is_left))[1 : c_tried], count(*),
        (array_agg(member.id order by member.id))[1]
    into v_left, v_read, v_reached
    from (
        select edge.after_id as id, job.id is not null and job.finished_at is null as is_left
        from treadle.dependencies as edge
        left join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
          and edge.after_id < coalesce(p_past, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by edge.after_id desc
        limit c_read
    ) as member;

    select job.id
    into v_watched
    from treadle.jobs as job
    where job.id = any (v_left)
      and job.finished_at is null
    order by job.id desc
    limit 1
    for no key update skip locked;
    if found then
        update treadle.jobs as job
        set flags = job.flags | treadle.flag_watched()
        where job.id = v_watched
          and job.flags & treadle.flag_watched() = 0;
        update treadle.dependencies as edge
        set watched = true
        where edge.job_id = p_id
          and edge.after_id = v_watched
          and not edge.watched;
    else
        -- All of those have ended: go on from there. Or they are locked, perhaps by whoever just ends them: begin
        -- again.
        perform treadle.note_dependency_check(
            array[p_id], false, case when v_left is null and v_read = c_read then v_reached end, true
        );
    end if;
end
$$;
