-- 1, 2, 4 ... seconds, at most an hour, each between half and the whole of it: jobs that failed together
-- do not come back together.
create or replace function treadle.retry_delay(p_attempts int) returns interval
language sql volatile
as $$
    select least(3600, power(2, least(greatest(p_attempts, 1), 20) - 1)) * (0.5 + random() / 2) * interval '1 second'
$$;

comment on function treadle.retry_delay(int) is 'How long a job waits after its nth failed attempt, unless it is told otherwise.';
