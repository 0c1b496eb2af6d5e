create or replace function treadle.keeps_inputs() returns smallint
language sql immutable parallel safe
return 64::smallint;

comment on function treadle.keeps_inputs() is 'The bit of jobs.keeps that says: results of other jobs are arguments of this one.';
