-- Raises an exception if a job cannot have these options.
create or replace function treadle.check_job(p_max_attempts int, p_headers jsonb) returns void
language plpgsql immutable
as $$
begin
    if p_max_attempts < 1 then
        raise exception 'p_max_attempts must be 1 or more, got %', p_max_attempts
            using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_typeof(p_headers) <> 'object' or octet_length(p_headers::text) > 8192 then
        raise exception 'p_headers must be an object of at most 8192 bytes, got % of %', jsonb_typeof(p_headers),
            octet_length(p_headers::text)
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;
