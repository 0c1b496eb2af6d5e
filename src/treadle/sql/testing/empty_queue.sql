-- Before and after each test: no jobs, no schedules, no lanes; the clock shows the real time.
--
-- The rows of a small table are deleted, without its triggers: a TRUNCATE takes 3 ms per table, and all sessions then
-- plan their statements again. A role that may not turn triggers off truncates.
do $$
declare
    c_small constant int := 10 * current_setting('block_size')::int;
    v_schema constant oid := (select relation.relnamespace from pg_class as relation where relation.oid = 'treadle.jobs'::regclass);
    v_may_delete boolean := true;
    v_large text;
    v_written regclass;
begin
    -- Rows that a connection of the test has locked, which it has left open.
    perform set_config('lock_timeout', '5s', true);

    begin
        set local session_replication_role = replica;
    exception when insufficient_privilege then
        v_may_delete := false;
    end;

    select string_agg(relation.oid::regclass::text, ', ')
    into v_large
    from pg_class as relation
    where relation.relnamespace = v_schema
      and relation.relkind = 'r'
      and relation.relname not in ('migrations', 'functions', 'meter', 'seal')
      and (
            pg_relation_size(relation.oid) > case when v_may_delete then c_small else 0 end
            or relation.reltoastrelid <> 0 and pg_relation_size(relation.reltoastrelid) > c_small
          );
    if v_large is not null then
        execute format('truncate %s cascade', v_large);
    end if;

    for v_written in
        select relation.oid::regclass
        from pg_class as relation
        where relation.relnamespace = v_schema
          and relation.relkind = 'r'
          and relation.relname not in ('migrations', 'functions', 'meter', 'seal')
          and pg_relation_size(relation.oid) > 0
    loop
        execute format('delete from %s', v_written);
    end loop;

    perform setval('treadle.test_offset', 0);
    perform nextval('treadle.lane_epoch'); -- the lanes were deleted without their trigger
    perform setval('treadle.tick_clock', 0);
    perform setval('treadle.wake_clock', 0);
    perform setval('treadle.depth_clock', 0);
    perform setval('treadle.awaited', 0);
    perform setval('treadle.watched', 0);
    update treadle.meter set reached = clock_timestamp(), summed_to = null;
end
$$;
