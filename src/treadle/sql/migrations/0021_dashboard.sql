-- The dashboard: searches by time range, by digits of ids and by values in payloads.
drop function if exists treadle.find_jobs(
    varchar, varchar, varchar, varchar, varchar, text, uuid, int, timestamptz, uuid, int, int, interval
);
drop function if exists treadle.find_claimable(
    varchar, varchar, varchar, text, boolean, timestamptz, int, timestamptz, uuid, int, int, timestamptz
);
