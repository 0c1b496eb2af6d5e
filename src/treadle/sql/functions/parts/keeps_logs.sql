create or replace function treadle.keeps_logs() returns smallint
language sql immutable parallel safe
return 2::smallint;

comment on function treadle.keeps_logs() is 'The bit of jobs.keeps that says: this job has log lines.';
