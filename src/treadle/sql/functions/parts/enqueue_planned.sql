-- enqueue_with_options() with the options of a JSON object: see enqueue_workflow().
create or replace function treadle.enqueue_planned(p_options jsonb, p_data text[], p_after jsonb, p_workflow jsonb) returns uuid[]
language plpgsql
as $$
begin
    return array(
        select added.id
        from jsonb_to_record(p_options) as given (
            job_type varchar, priority int, queue varchar, run_at timestamptz, delay double precision, key varchar,
            max_attempts int, weight int, partitions text[], partition text, expires double precision, expires_at timestamptz,
            headers jsonb
        )
        cross join lateral treadle.enqueue_with_options(
            given.job_type,
            p_data,
            p_expires => given.expires * interval '1 second',
            p_expires_at => given.expires_at,
            p_priority => coalesce(given.priority, 100),
            p_queue => coalesce(given.queue, 'default'),
            p_run_at => given.run_at,
            p_delay => given.delay * interval '1 second',
            p_keys => case when given.key is not null then array_fill(given.key, array[cardinality(p_data)]) end,
            p_max_attempts => coalesce(given.max_attempts, 3),
            p_partitions => coalesce(
                given.partitions, case when given.partition is not null then array_fill(given.partition, array[cardinality(p_data)]) end
            ),
            p_weight => given.weight,
            p_after => p_after,
            p_workflow => p_workflow,
            p_headers => given.headers
        ) with ordinality as added (id, is_new, is_changed, nth)
        order by added.nth
    );
end
$$;

comment on function treadle.enqueue_planned(jsonb, text[], jsonb, jsonb) is 'Enqueues jobs with the options of a JSON object.';
