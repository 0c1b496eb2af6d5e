-- replace_job() for workers: waits only briefly for locked rows.
with setting as materialized (
    select pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true) as value
)
select replaced.accepted, replaced.problem
from setting
cross join lateral treadle.replace_job(
    -- The call depends on the setting, so that it comes after it.
    p_worker_id => case when setting.value is not null then %(worker_id)s end,
    p_id => %(id)s,
    p_lease => %(lease)s,
    p_seconds => %(seconds)s,
    p_blocks => %(blocks)s::pg_catalog.jsonb,
    p_nths => %(nths)s,
    p_stored => %(stored)s
) as replaced
