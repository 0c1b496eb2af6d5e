-- What kind of limit it is, and the names of all limits if there is none of this name.
select
    rule.name,
    rule.per,
    rule.kind,
    case
        when rule.name is null then array(
            select known.name
            from treadle.limits_and_settings() as known
            order by known.name
            limit 100
        )
    end
from (select %(name)s::varchar as name) as wanted
left join treadle.limits_and_settings() as rule on rule.name = wanted.name
