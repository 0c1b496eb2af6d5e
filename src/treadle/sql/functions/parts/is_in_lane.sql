-- Whether a job, or a row of lanes, with this queue, job type, priority and partition belongs to a lane. What
-- identifies a lane is the type treadle.lane; jobs, lanes and floors have its fields as columns. The planner inlines
-- this function, and each comparison becomes a condition of that index.
create or replace function treadle.is_in_lane(
    p_queue varchar,
    p_job_type varchar,
    p_priority int,
    p_partition varchar,
    p_lane treadle.lane
) returns boolean
language sql immutable parallel safe
return p_queue = p_lane.queue and p_job_type = p_lane.job_type and p_priority = p_lane.priority
    and p_partition = p_lane.partition;
