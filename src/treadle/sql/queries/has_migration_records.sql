select count(*) = 2
from pg_tables as books
where books.schemaname = %(schema)s
  and books.tablename in ('migrations', 'functions')
