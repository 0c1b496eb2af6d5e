-- Read once: the view reads all of pg_class.
with statistics as materialized (
    select statistics.tablename, statistics.attname, statistics.avg_width
    from pg_stats as statistics
    where statistics.schemaname = 'treadle'
)
select
    class.relname::text,
    owner.relname::text,
    index.indisvalid and index.indisready,
    index.indisunique,
    class.reltuples::double precision,
    (
        -- The average width of a column; 16 bytes if it was never analyzed.
        select sum(coalesce(statistics.avg_width, 16))::double precision
        from unnest(index.indkey) with ordinality as part (number, place)
        left join pg_attribute as of_table
            on of_table.attrelid = index.indrelid and of_table.attnum = part.number and part.number <> 0
        left join pg_attribute as of_index
            on of_index.attrelid = index.indexrelid and of_index.attnum = part.place
        left join statistics
            on statistics.tablename = case part.number when 0 then class.relname else owner.relname end
            and statistics.attname = case part.number when 0 then of_index.attname else of_table.attname end
    ),
    pg_relation_size(class.oid)
from pg_index as index
join pg_class as class on class.oid = index.indexrelid
join pg_class as owner on owner.oid = index.indrelid
join pg_namespace as namespace on namespace.oid = class.relnamespace
where namespace.nspname = 'treadle'
  and owner.relkind = 'r'
order by class.relname
