-- Whether an index for searches by this path in payloads exists and may be used.
--
--   create index on treadle.jobs (jsonb_hash_extended(data #> '{order}', 0), id) where data #> '{order}' is not null
--
-- The value is hashed, because an index refuses values of more than 2,700 bytes. The hash is equal for equal values of
-- jsonb, such as 7 and 7.0.
create or replace function treadle.has_payload_index(p_path text[]) returns boolean
language plpgsql stable
as $$
declare
    -- As pg_get_indexdef() prints it. quote_literal() would write a backslash in another way.
    v_value constant text := '(data #> ''' || replace(p_path::text, '''', '''''') || '''::text[])';
begin
    return exists (
        select
        from pg_catalog.pg_index as index
        where index.indrelid = 'treadle.jobs'::regclass
          and index.indisvalid
          and index.indnkeyatts = 2
          and pg_catalog.pg_get_indexdef(index.indexrelid, 1, false) = 'jsonb_hash_extended(' || v_value || ', (0)::bigint)'
          and pg_catalog.pg_get_indexdef(index.indexrelid, 2, false) = 'id'
          and coalesce(pg_catalog.pg_get_expr(index.indpred, index.indrelid, false), '') in ('', '(' || v_value || ' IS NOT NULL)')
    );
end
$$;
