-- Closes a batch: it ends when all of its jobs have ended. Returns false if it is not open.
create or replace function treadle.close_workflow(p_id uuid) returns boolean
language plpgsql
security definer
set enable_seqscan = off
as $$
begin
    update treadle.workflows as workflow
    set is_open = false
    where workflow.id = p_id
      and workflow.is_open
      and workflow.plan is null;
    if not found then
        return false;
    end if;
    perform treadle.note_dependency_check(array[p_id], false);
    return true;
end
$$;
