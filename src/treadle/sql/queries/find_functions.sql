select function.proname::text, md5(function.prosrc)
from pg_proc as function
join pg_namespace as namespace on namespace.oid = function.pronamespace
where namespace.nspname = 'treadle'
order by function.proname
