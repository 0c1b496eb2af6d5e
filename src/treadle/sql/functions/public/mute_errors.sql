-- Mutes a group of errors, or with p_muted false ends that. A muted group is still counted and shown, but is no alarm.
-- It lasts until somebody ends it, or for p_for, or until a version of the application fails that has not failed in
-- this group and does not run yet. Returns done; unchanged, if it is not muted; or missing. Runs with the rights of its
-- owner: a group cannot be muted without an audit row.
create or replace function treadle.mute_errors(
    p_group_id int,
    p_muted boolean default true,
    p_for interval default null,
    p_until_new_version boolean default false,
    p_actor text default null,
    p_reason text default null
) returns varchar
language plpgsql
security definer
as $$
declare
    v_actor constant text := coalesce(p_actor, session_user);
    v_group record;
begin
    if p_for <= interval '0' or p_for > interval '366 days' then
        raise exception 'errors are muted for more than 0 seconds and at most 366 days, got %', p_for
            using errcode = 'invalid_parameter_value';
    end if;

    select known.job_type, known.exception, known.message, treadle.is_muted(known.muted_at, known.muted_until) as muted
    into v_group
    from treadle.error_groups as known
    where known.id = p_group_id
    for update;
    if not found then
        return 'missing';
    end if;
    if not p_muted and not v_group.muted then
        return 'unchanged';
    end if;

    update treadle.error_groups as known
    set muted_at = case when p_muted then clock_timestamp() end,
        muted_by = case when p_muted then v_actor end,
        muted_reason = case when p_muted then p_reason end,
        muted_until = case when p_muted then clock_timestamp() + p_for end,
        muted_versions = case
            when p_muted and p_until_new_version then array(
                select version.version from treadle.error_group_versions as version where version.group_id = p_group_id
                union
                select running.version from treadle.worker_versions as running
            )
        end
    where known.id = p_group_id;

    insert into treadle.audit (actor, action, job_type, reason, details)
    values (
        v_actor,
        case when p_muted then 'mute errors' else 'unmute errors' end,
        v_group.job_type,
        p_reason,
        jsonb_strip_nulls(jsonb_build_object(
            'group', p_group_id,
            'exception', v_group.exception,
            'message', v_group.message,
            'for', case when p_muted then p_for::text end,
            'until_new_version', case when p_muted and p_until_new_version then true end
        ))
    );
    return 'done';
end
$$;
