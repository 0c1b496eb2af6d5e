-- The name of the channel to LISTEN to: "work" (jobs to claim, or to stop), "ends" (the ids of jobs that finished) or
-- "news" (the ids of jobs with new events or progress). Channels belong to the database, not to a schema. A number
-- stands for the schema: its name may be too long.
create or replace function treadle.channel(p_kind text) returns text
language sql stable
as $$
    select format('treadle_%s_%s', 'treadle.jobs'::regclass::oid, p_kind)
$$;
