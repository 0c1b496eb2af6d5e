-- The pauses that keep jobs of this type in this queue from being claimed. The planner inlines this function.
create or replace function treadle.pauses_of(p_job_type varchar, p_queue varchar) returns setof treadle.pauses
language sql stable
as $$
    select pause.*
    from treadle.pauses as pause
    where pause.job_type in (p_job_type, '')
      and pause.queue in (p_queue, '')
$$;
