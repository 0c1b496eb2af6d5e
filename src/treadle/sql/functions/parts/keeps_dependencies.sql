create or replace function treadle.keeps_dependencies() returns smallint
language sql immutable parallel safe
return 32::smallint;

comment on function treadle.keeps_dependencies() is 'The bit of jobs.keeps that says: this job waits for others, or did.';
