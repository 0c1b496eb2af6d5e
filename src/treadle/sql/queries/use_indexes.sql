-- For the rest of the transaction, only plans that read a bounded part of an index, also with stale statistics.
select
    set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true)
