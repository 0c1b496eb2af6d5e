-- Whether a group of errors is muted now.
create or replace function treadle.is_muted(p_muted_at timestamptz, p_muted_until timestamptz) returns boolean
language sql stable
return p_muted_at is not null and (p_muted_until is null or p_muted_until > clock_timestamp());
