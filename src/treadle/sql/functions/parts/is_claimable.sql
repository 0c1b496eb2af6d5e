-- Whether a worker may claim a job once it is due: it is pending, nothing blocks it, and it has attempts left. Every
-- other condition that blocks a job (a key, other jobs, a signal) is a bit of jobs.holds, so a new rule does not change
-- this.
--
-- The planner inlines this function. The result must be the predicate of idx_jobs_claimable, term by term, or claims
-- cannot use the index: tests/queue/test_claimable.py compares the plans. It takes columns, because a whole-row
-- reference needs the right to read every column of jobs, which a viewer does not have.
create or replace function treadle.is_claimable(
    p_status varchar,
    p_holds smallint,
    p_attempts int,
    p_max_attempts int
) returns boolean
language sql immutable parallel safe
return p_status = 'pending' and p_holds = 0 and treadle.has_attempts_left(p_attempts, p_max_attempts);
