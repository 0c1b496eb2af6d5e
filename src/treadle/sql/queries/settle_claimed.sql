-- settle_jobs() for workers: waits only briefly for locked rows.
with setting as materialized (
    select pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true) as value
)
select settled.id, settled.status
from setting
cross join lateral treadle.settle_jobs(
    -- The call depends on the setting, so that it comes after it.
    p_worker_id => case when setting.value is not null then %(worker_id)s end,
    p_ids => %(ids)s,
    p_leases => %(leases)s,
    p_outcomes => %(outcomes)s,
    p_errors => %(errors)s,
    p_tracebacks => %(tracebacks)s,
    p_delays => %(delays)s,
    p_seconds => %(seconds)s,
    p_crash_limit => %(crash_limit)s,
    p_limited_for => %(limited_for)s::varchar[]
) as settled
