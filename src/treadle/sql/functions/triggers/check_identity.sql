-- Trigger: before the key or the partition of a job is changed. The key of an unfinished job cannot change: other jobs
-- may be blocked behind it. A partition is a JSON object, as the lane of the job demands: without it, the job could not
-- be given back.
create or replace function treadle.check_identity() returns trigger
language plpgsql
as $$
begin
    if old.key is distinct from new.key and old.finished_at is null then
        raise exception 'the key of job % cannot be changed while it is %', old.id, old.status
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Cancel it, and enqueue a new job with the other key.';
    end if;

    if new.partition <> '' and jsonb_typeof(new.partition::jsonb) <> 'object' then
        raise exception 'the partition of a job must be empty or a JSON object, got %', new.partition
            using errcode = 'check_violation';
    end if;
    return new;
end
$$;

create or replace trigger check_identity
    before update of key, partition on treadle.jobs
    for each row
    execute function treadle.check_identity();
