-- Null: there was none yet.
select extract(epoch from clock_timestamp())::double precision - nullif(clock.last_value, 0) / 1000000.0::double precision
from treadle.tick_clock as clock
