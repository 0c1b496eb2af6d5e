-- What should have been decided long ago about jobs that wait for others: the oldest first. Ticks decide it within a
-- second.
select
    noted.jobs[1],
    cardinality(noted.jobs),
    extract(epoch from now() - noted.noted_at)::double precision
from treadle.dependency_checks as noted
where noted.noted_at < now() - %(seconds)s * interval '1 second'
order by noted.noted_at
limit 20
