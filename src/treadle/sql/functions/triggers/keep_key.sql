-- The key of an unfinished job cannot change: other jobs may be blocked behind it.
create or replace function treadle.keep_key() returns trigger
language plpgsql
as $$
begin
    raise exception 'the key of job % cannot be changed while it is %', old.id, old.status
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Cancel it, and enqueue a new job with the other key.';
end
$$;

comment on function treadle.keep_key() is 'Trigger: refuses to change the key of an unfinished job.';

create or replace trigger keep_key
    before update of key on treadle.jobs
    for each row
    when (old.key is distinct from new.key and old.status in ('pending', 'claimed', 'running'))
    execute function treadle.keep_key();
