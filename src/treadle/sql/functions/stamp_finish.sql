-- Before a job ends by a statement that does not know our columns, such as the specification's own
-- UPDATE ... SET status = 'completed': note when, so that pruning finds it.
create or replace function treadle.stamp_finish() returns trigger
language plpgsql
as $$
begin
    if new.status in ('completed', 'failed', 'cancelled') then
        new.finished_at := clock_timestamp();
    else
        new.finished_at := null;
    end if;
    return new;
end
$$;

comment on function treadle.stamp_finish() is 'Trigger: keeps finished_at true when a statement by hand ends or revives a job.';

create or replace trigger stamp_finish
    before insert or update on treadle.jobs
    for each row
    when ((new.status in ('completed', 'failed', 'cancelled')) <> (new.finished_at is not null))
    execute function treadle.stamp_finish();
