select trigger.tgname::text, class.relname::text, trigger.tgenabled in ('O', 'A')
from pg_trigger as trigger
join pg_class as class on class.oid = trigger.tgrelid
join pg_namespace as namespace on namespace.oid = class.relnamespace
where namespace.nspname = 'treadle'
  and not trigger.tgisinternal
order by trigger.tgname
