-- Enqueues one job of a type for each element of p_data (JSON texts), with the options that enqueue_jobs() does not
-- have: unique keys in all their forms, expiry, and what they wait for. Returns one row for each, in that order: the
-- job, whether it is new, and whether an existing one was changed. No row if max_pending is reached.
--
-- p_options is a JSON object. An interval is a text ("10 minutes"), or a number of seconds.
--
--   priority, queue, run_at, delay, max_attempts, headers   as in enqueue_jobs(), of each job
--   key, partition         of each job; or keys, partitions: a list with one for each. (A partition is a text with a JSON
--                          object: values for the parts of the partition that are not arguments.)
--   weight                 how much of its limits a job uses
--   timeout                a list: after how many seconds the handler is interrupted, and killed; each may be null
--   expires, expires_at    if no worker has claimed the job so long after it was due, or by then, it is cancelled
--   after                  the jobs that these wait for: a list of objects with id; ok_to_fail, if it may also fail, or
--                          if_failed, if it must not complete; arguments, a list of the arguments that get its result;
--                          nth, if these are lists, and that is its place. The role must be allowed to read results then
--                          (check_results). If one of them does not exist, nothing is
--                          enqueued, and its id is returned with null for is_new.
--   workflow               what makes them part of a workflow, or of the one that a job is part of: an object with its
--                          id (see add_members()). If it does not exist, nothing is enqueued, and its id is returned
--                          with null for is_new; if it has ended, with false for is_changed.
--
--   unique_keys            a list: a unique key for each job. What is unique depends on unique_while and period:
--   unique_while           unfinished (the default): one job of this type with this key that is not finished
--                          pending: one that no worker has claimed yet
--   period, per_period     at most per_period jobs enqueued within any period of this length, even if they have ended
--   on_conflict            how a job that exists is changed, if it is still pending, a list: replace (its payload),
--                          reschedule (to the time of this call, but not later than "latest" after it was enqueued) and
--                          prioritize (its priority becomes the higher of the two)
--   all_or_none            nothing is enqueued if one of the jobs exists: is_new is false for those that do, and null
--                          for the others
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read unique keys, which are data of the user.
create or replace function treadle.enqueue_with_options(p_job_type varchar, p_data text[], p_options jsonb default '{}')
returns table (id uuid, is_new boolean, is_changed boolean)
language plpgsql
security definer
as $$
declare
    v_options constant treadle.enqueue_options := jsonb_populate_record(null::treadle.enqueue_options, p_options);
    v_unknown text;
begin
    select given.name
    into v_unknown
    from jsonb_object_keys(p_options) as given (name)
    where not to_jsonb(v_options) - 'origin' ? given.name
    limit 1;
    if found then
        raise exception 'p_options must have the names of options only, got %', v_unknown
            using errcode = 'invalid_parameter_value';
    end if;
    perform treadle.check_results(v_options.after) where v_options.after is not null;

    return query
    select added.id, added.is_new, added.is_changed
    from treadle.add_jobs(p_job_type, p_data, v_options) as added;
end
$$;
