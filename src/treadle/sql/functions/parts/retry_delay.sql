-- The default delay before a job is retried after p_attempts attempts. Exponential: 1 s, doubled with each attempt,
-- at most 1 h, with 50 % jitter, so that jobs that failed together are not retried together.
create or replace function treadle.retry_delay(p_attempts int) returns interval
language sql volatile
return least(3600, power(2, least(greatest(p_attempts, 1), 20) - 1)) * (0.5 + random() / 2) * interval '1 second';
