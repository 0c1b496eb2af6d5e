-- Searches by several values in payloads have one more parameter.
drop function if exists treadle.find_jobs(
    varchar, varchar, varchar, varchar, varchar, text, uuid, int, timestamptz, uuid, int, int, interval, timestamptz, timestamptz,
    text[], jsonb, boolean
);
drop function if exists treadle.find_claimable(
    varchar, varchar, varchar, text, boolean, timestamptz, int, timestamptz, uuid, int, int, timestamptz, text, uuid, uuid, text[],
    jsonb
);
drop function if exists treadle.find_by_payload(
    text[], jsonb, varchar, varchar, varchar, varchar, varchar, text, text, timestamptz, timestamptz, uuid, uuid, uuid, int, int,
    timestamptz
);
