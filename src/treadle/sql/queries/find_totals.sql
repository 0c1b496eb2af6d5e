-- What has finished, by queue and type, most first; and the upper bounds of the histograms.
select
    total.queue,
    total.job_type,
    total.completed,
    total.failed,
    total.cancelled,
    total.errors,
    total.waited,
    total.ran,
    total.waited_counts,
    total.ran_counts,
    treadle.time_buckets()
from treadle.totals as total
order by total.completed + total.failed + total.cancelled desc, total.queue, total.job_type
limit %(limit)s
