select has_column_privilege('treadle.jobs', 'data', 'select')
