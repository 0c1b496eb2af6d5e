create or replace function treadle.keeps_steps() returns smallint
language sql immutable parallel safe
return 4::smallint;

comment on function treadle.keeps_steps() is 'The bit of jobs.keeps that says: this job has steps.';
