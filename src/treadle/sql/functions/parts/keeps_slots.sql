create or replace function treadle.keeps_slots() returns smallint
language sql immutable parallel safe
return 8::smallint;

comment on function treadle.keeps_slots() is 'The bit of jobs.keeps that says: this job was claimed under a limit.';
