create or replace function treadle.keeps_skipped() returns smallint
language sql immutable parallel safe
return 512::smallint;

comment on function treadle.keeps_skipped() is 'The bit of jobs.keeps that says: this job was cancelled because it was not needed.';
