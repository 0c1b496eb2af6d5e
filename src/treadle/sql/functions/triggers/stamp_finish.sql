-- Sets finished_at when a statement finishes a job without setting it, such as the specification's own
-- UPDATE ... SET status = 'completed', so that pruning finds the job.
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

comment on function treadle.stamp_finish() is 'Trigger: sets finished_at when a job finishes, and clears it when a job is revived.';

create or replace trigger stamp_finish
    before insert or update on treadle.jobs
    for each row
    when ((new.status in ('completed', 'failed', 'cancelled')) <> (new.finished_at is not null))
    execute function treadle.stamp_finish();
