-- Limits whose name, job type or queue contains a text. Or one limit, with its keys that begin with a text: the key
-- that equals it is among them even if no job has used it yet, so that it can be changed.
with rule as materialized (
    select known.name, known.kind, known.per, known.setting_of
    from treadle.limits_and_settings() as known
    where case
            when %(name)s::varchar is not null then known.name = %(name)s::varchar
            else position(lower(%(search)s::text) in lower(known.name)) > 0
                or exists (
                    select
                    from treadle.limit_targets as target
                    where target.name = known.name
                      and (
                            position(lower(%(search)s::text) in lower(target.job_type)) > 0
                            or position(lower(%(search)s::text) in lower(target.queue)) > 0
                      )
                )
          end
    order by known.name
    limit %(limit)s
),
chosen as materialized (
    select rule.name, (case when rule.per = '' then '' end)::varchar collate "C" as key
    from rule
    union
    select rule.name, wanted.key
    from rule
    cross join lateral (
        select %(key)s::varchar collate "C" as key
        union
        select following.key
        from (
            -- In this order, the keys that begin with the text come first.
            (
                select own.key
                from treadle.limit_keys as own
                where own.name = rule.name
                  and own.key >= %(key)s::varchar collate "C"
                order by own.key
                limit %(limit)s
            )
            union all
            (
                select own.key
                from treadle.fair_weights as own
                where rule.kind = 'fairness'
                  and own.job_type = rule.setting_of
                  and own.key >= %(key)s::varchar collate "C"
                order by own.key
                limit %(limit)s
            )
        ) as following
        where starts_with(following.key, %(key)s::varchar)
    ) as wanted
    where rule.per <> ''
      and %(key)s::varchar is not null
)
select /* columns */
from treadle.limit_statuses(
    array(select chosen.name from chosen order by chosen.name, chosen.key),
    array(select chosen.key from chosen order by chosen.name, chosen.key)
)
order by waiting desc, name, key nulls first
