-- Raises an exception if the caller may not enqueue, or if these are no arguments of a job. Operators who may only operate
-- jobs would enqueue whatever they like if they could choose the arguments.
create or replace function treadle.check_edit(p_arguments jsonb) returns void
language plpgsql
as $$
begin
    if not has_function_privilege(session_user, 'treadle.enqueue_unique'::regproc, 'execute') then
        raise exception 'jobs are edited and copied by roles that may enqueue, and % may not', session_user
            using errcode = 'insufficient_privilege',
                  hint = 'Make it a member of treadle_enqueue.';
    end if;
    if jsonb_typeof(p_arguments) is distinct from 'object' then
        raise exception 'p_arguments must be an object such as {"user": 8}, got %', coalesce(p_arguments::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;
