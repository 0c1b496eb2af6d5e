-- The partitions of jobs that are to be enqueued, one for each of p_data; null if no limit or fairness is for these
-- jobs, and no partition is given.
create or replace function treadle.partitions_of(p_job_type varchar, p_queue varchar, p_data text[], p_given text[]) returns varchar[]
language plpgsql stable
as $$
declare
    v_parts constant varchar[] := treadle.partition_parts(p_job_type, p_queue);
begin
    if v_parts is null and p_given is null then
        return null;
    end if;
    return array(
        select treadle.partition_of(v_parts, item.data::jsonb, item.given::jsonb)
        from unnest(p_data, p_given) with ordinality as item (data, given, nth)
        order by item.nth
    );
end
$$;
