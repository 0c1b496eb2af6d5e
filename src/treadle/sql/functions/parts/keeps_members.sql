create or replace function treadle.keeps_members() returns smallint
language sql immutable parallel safe
return 128::smallint;

comment on function treadle.keeps_members() is 'The bit of jobs.keeps that says: this job is a workflow, and ends when all of its jobs have ended.';
