-- Seconds until the next job expires. Not those that are long past: their rows are gone, but an open snapshot may keep them.
select extract(epoch from pg_catalog.min(entry.look_at) operator(pg_catalog.-) pg_catalog.clock_timestamp())::double precision
from treadle.expiries as entry
where entry.look_at operator(pg_catalog.>) pg_catalog.clock_timestamp() operator(pg_catalog.-) interval '1 minute'
