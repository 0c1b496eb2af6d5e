create or replace function treadle.keeps_watchers() returns smallint
language sql immutable parallel safe
return 16::smallint;

comment on function treadle.keeps_watchers() is 'The bit of jobs.keeps that says: jobs wait for the end of this one.';
