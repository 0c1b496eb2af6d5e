-- Refuses jobs that take the results of jobs which were there before (p_after as in enqueue_with_options()), if the role of the session
-- may not read results: otherwise a role that may only enqueue could have any result handed to a job of its choice.
--
-- Asks for the role that the session has set or logged in with: the functions that call this one run as their owner.
create or replace function treadle.check_results(p_after jsonb) returns void
language plpgsql stable
as $$
declare
    v_role constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    v_id uuid;
begin
    select each.id
    into v_id
    from jsonb_to_recordset(p_after) as each (id uuid, arguments varchar[])
    where each.id is not null
      and each.arguments is not null
    limit 1;
    if found and not has_column_privilege(v_role, 'treadle.jobs', 'result', 'select') then
        raise exception 'role % may not read results, so its jobs cannot take the result of job %', v_role, v_id
            using errcode = 'insufficient_privilege',
                  hint = 'Enqueue both jobs in one workflow, or use a role that may read results, such as treadle_worker.';
    end if;
end
$$;
