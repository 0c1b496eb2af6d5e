-- Schedules that are due or have no time yet: the oldest first, along idx_schedules_next. Healthy workers leave none of
-- them.
select
    found.name, found.digest is not null,
    extract(epoch from now() - found.declared_at)::double precision,
    -- An UPDATE by hand can set any time, even -infinity.
    extract(epoch from now() - greatest(coalesce(found.next_at, found.changed_at), '0001-01-02'))::double precision as late,
    left(found.error, 500),
    extract(epoch from found.retry_at - now())::double precision
from (
    (
        select known.name, known.digest, known.declared_at, known.next_at, known.changed_at, known.error, known.retry_at
        from treadle.schedules as known
        where known.paused_at is null
          and known.retired_at is null
          and known.next_at is null
        limit 500
    )
    union all
    (
        select known.name, known.digest, known.declared_at, known.next_at, known.changed_at, known.error, known.retry_at
        from treadle.schedules as known
        where known.paused_at is null
          and known.retired_at is null
          and known.next_at <= now()
        order by known.next_at nulls first
        limit 500
    )
) as found
order by late desc
