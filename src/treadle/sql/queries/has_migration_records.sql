select count(*) = 2
from pg_tables as records
where records.schemaname = 'treadle'
  and records.tablename in ('migrations', 'functions')
