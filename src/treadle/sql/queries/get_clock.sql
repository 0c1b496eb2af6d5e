select (extract(epoch from pg_catalog.clock_timestamp()) operator(pg_catalog.*) 1000000)::bigint
