-- Trigger: jobs may run under a limit that is new, or whose kind, "per" or jobs have changed: the next claim lists them. See
-- parts/list_running_jobs.sql.
create or replace function treadle.note_unlisted_limit() returns trigger
language plpgsql
as $$
begin
    insert into treadle.unlisted_limits (name)
    select rule.name
    from treadle.limits as rule
    where rule.name = new.name
      and rule.kind = 'concurrency';
    return null;
end
$$;

create or replace trigger note_new_limit
    after insert on treadle.limits
    for each row
    execute function treadle.note_unlisted_limit();

create or replace trigger note_changed_limit
    after update of kind, per on treadle.limits
    for each row
    when (old.kind <> new.kind or old.per <> new.per)
    execute function treadle.note_unlisted_limit();

create or replace trigger note_limit_target
    after insert on treadle.limit_targets
    for each row
    when (new.name <> '')
    execute function treadle.note_unlisted_limit();
