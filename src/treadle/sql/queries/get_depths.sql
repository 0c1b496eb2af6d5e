-- How many jobs waited during the last %(window)s seconds, of a type and in a queue, if given: of each step of %(step)s
-- seconds, the most in any minute. A minute that was counted has a row with empty names, for all types and queues.
select
    statement_timestamp(),
    date_bin(make_interval(secs => %(step)s), counted.minute, 'epoch'::timestamptz) as at,
    max(counted.jobs)::bigint
from (select) as always
left join (
    select
        history.minute,
        coalesce(
            sum(history.jobs) filter (
                where case
                    when %(job_type)s::varchar is null and %(queue)s::varchar is null then history.job_type = ''
                    else history.job_type <> ''
                        and (%(job_type)s::varchar is null or history.job_type = %(job_type)s::varchar)
                        and (%(queue)s::varchar is null or history.queue = %(queue)s::varchar)
                end
            ),
            0
        ) as jobs
    from treadle.depth_history as history
    where history.minute >= date_bin(
            make_interval(secs => %(step)s),
            statement_timestamp() - make_interval(secs => %(window)s),
            'epoch'::timestamptz
          )
    group by history.minute
) as counted on true
group by at
order by at
