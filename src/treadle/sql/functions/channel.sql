-- Channels are the database's, not the schema's. A number instead of the schema's name, which may be too long for one.
create or replace function treadle.channel(p_kind text) returns text
language sql stable
as $$
    select format('treadle_%s_%s', 'treadle.jobs'::regclass::oid, p_kind)
$$;

comment on function treadle.channel(text)
    is 'The name to LISTEN to: "work" for workers (there may be something to claim, or to cancel), "ends" for the ids of jobs that ended.';
