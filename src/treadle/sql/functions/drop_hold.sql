-- A job that comes back from its end comes back free: whoever would have let it go may be gone. Named to be fired before
-- enter_lane, which places what is free.
create or replace function treadle.drop_hold() returns trigger
language plpgsql
as $$
begin
    new.holds := new.holds & ~1;
    return new;
end
$$;

comment on function treadle.drop_hold() is 'Trigger: a job that is revived is not held behind its key.';

create or replace trigger drop_hold
    before update on treadle.jobs
    for each row
    when (
        old.status in ('completed', 'failed', 'cancelled')
        and new.status in ('pending', 'claimed', 'running')
        and new.holds & 1 = 1
    )
    execute function treadle.drop_hold();
