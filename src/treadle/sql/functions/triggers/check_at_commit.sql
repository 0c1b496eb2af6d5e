-- Trigger: at commit, decides what an end, a retry or an enqueue means for jobs that wait for others. At commit,
-- because the rows that are locked here must not stay locked for long: workers that end those jobs would have to wait.
--
-- On an older snapshot (REPEATABLE READ, SERIALIZABLE) it is left to the next claim of a worker or tick, like
-- everything that is locked by somebody else, and the rest of very many. Runs with the rights of its owner: at commit,
-- the current role may be any.
create or replace function treadle.check_at_commit() returns trigger
language plpgsql
security definer
as $$
declare
    c_limit constant int := 200;
begin
    if treadle.is_read_committed() then
        perform treadle.decide_check(null, new.jobs, new.ended, new.past, c_limit);
    else
        insert into treadle.dependency_checks (noted_at, jobs, ended, past)
        values (clock_timestamp(), new.jobs, new.ended, new.past);
    end if;
    return null;
end
$$;

create constraint trigger check_at_commit
    after insert on treadle.dependency_requests
    deferrable initially deferred
    for each row
    execute function treadle.check_at_commit();
