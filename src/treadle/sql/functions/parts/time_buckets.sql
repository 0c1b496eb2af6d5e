-- The upper bounds of the histograms of waiting and run times, in seconds.
create or replace function treadle.time_buckets() returns double precision[]
language sql immutable parallel safe
return array[
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 14400
]::double precision[];
