select function.proname::text, md5(function.prosrc), function.prosecdef, coalesce(function.proconfig, '{}')::text[]
from pg_proc as function
join pg_namespace as namespace on namespace.oid = function.pronamespace
where namespace.nspname = 'treadle'
order by function.proname
