-- A statement that ends jobs and counts them for their workflows inverts it, which tells the trigger that it need not.
create or replace function treadle.flag_counted() returns smallint
language sql immutable parallel safe
return 2048::smallint;

comment on function treadle.flag_counted() is 'The bit of jobs.flags that a statement inverts which counts the end of a job itself. Its value means nothing.';
