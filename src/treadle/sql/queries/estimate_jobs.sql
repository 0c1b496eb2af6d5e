-- About how many jobs have a status (null: how many there are), by the statistics of the table. Null if it was not
-- analyzed.
select case
    when statistics.reltuples < 0 then null
    when %(status)s::text is null then statistics.reltuples::bigint
    else (statistics.reltuples * column_statistics.frequency)::bigint
end
from pg_catalog.pg_class as statistics
left join lateral (
    select common.frequency
    from pg_catalog.pg_stats as known
    cross join lateral unnest(known.most_common_vals::text::text[], known.most_common_freqs) as common (value, frequency)
    where known.schemaname = statistics.relnamespace::regnamespace::text
      and known.tablename = statistics.relname
      and known.attname = 'status'
      and common.value = %(status)s::text
) as column_statistics on true
where statistics.oid = 'treadle.jobs'::regclass
