-- After finished_spans.sql: the jobs that finished in the last %(window)s seconds, summed over steps of %(step)s
-- seconds, and up to when they are counted.
select
    bounds.now,
    bounds.reached,
    finished.*
from bounds
left join (
    select
        date_bin(make_interval(secs => %(step)s), finished.at, 'epoch'::timestamptz) as at,
        /* sums */
    from finished
    group by 1
) as finished on true
order by finished.at
