select
    clock_timestamp(),
    current_setting('server_version_num')::int,
    current_user::text,
    pg_is_in_recovery(),
    pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
    (
        -- As a new connection gets them: this connection has timeouts of its own.
        select jsonb_object_agg(setting.name, setting.reset_val)
        from pg_settings as setting
        where setting.name = any (%(names)s)
    ),
    pg_notification_queue_usage()
