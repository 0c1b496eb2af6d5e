-- Why the server refuses what workers write, if it has done so in the last seconds. Workers say so in the names of their
-- sessions (show_refusal), which takes no disk. Others who may connect cannot pretend it: only a role that may
-- update jobs counts.
select said.refusal
from (
    select
        substring(activity.application_name from '^treadle cannot write: (disk_full|out_of_memory|io_error) ') as refusal,
        substring(activity.application_name from '^treadle cannot write: \w+ (\d{1,12})\M')::bigint as at
    from pg_stat_activity as activity
    where activity.datname = current_database()
      and has_table_privilege(activity.usesysid, to_regclass('treadle.jobs'), 'update')
) as said
where said.refusal is not null
  and said.at > extract(epoch from clock_timestamp()) - 10 -- SECONDS in words/refusal.py
order by said.at desc
limit 1
