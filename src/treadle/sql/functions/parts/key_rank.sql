-- The rank of an unfinished job among those with its key: 0 running, 1 next to run, 2 blocked.
--
-- The planner inlines this function. The result must be the second column of idx_jobs_key, or look-ups by key read all
-- jobs of the key: tests/queue/test_claimable.py compares the plans. With the status itself in that index, "which job
-- of this key runs" could be answered from idx_jobs_worker, which has the running jobs of every key. The cast is part
-- of that: a CASE remembers the length of the type that it compares. The planner removes it.
create or replace function treadle.key_rank(p_status varchar, p_holds smallint) returns int
language sql immutable parallel safe
return case p_status::varchar(20) when 'pending' then 1 + (p_holds & treadle.blocked_by_key()) else 0 end;
