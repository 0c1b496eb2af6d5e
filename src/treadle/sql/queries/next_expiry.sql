-- Seconds until the next job expires. Not those that are long past: their rows are gone, but an open snapshot may keep them.
select extract(epoch from min(entry.look_at) - clock_timestamp())::double precision
from treadle.expiries as entry
where entry.look_at > clock_timestamp() - interval '1 minute'
