select count(*) = 2
from pg_tables as books
where books.schemaname = 'treadle'
  and books.tablename in ('migrations', 'functions')
