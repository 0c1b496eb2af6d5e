create or replace function treadle.keeps_events() returns smallint
language sql immutable parallel safe
return 1::smallint;

comment on function treadle.keeps_events() is 'The bit of jobs.keeps that says: this job has events.';
