select extract(epoch from clock_timestamp())::double precision
