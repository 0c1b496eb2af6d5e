create or replace function treadle.keeps_part() returns smallint
language sql immutable parallel safe
return 256::smallint;

comment on function treadle.keeps_part() is 'The bit of jobs.keeps that says: this job is part of a workflow.';
