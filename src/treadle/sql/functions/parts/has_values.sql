-- Whether a payload has all of these values, for find_jobs(). p_conditions is an array such as [{"path": ["order"],
-- "value": "ORD-1999"}, {"path": ["note"]}]. Without a value, there must be any.
create or replace function treadle.has_values(p_data jsonb, p_conditions jsonb) returns boolean
language plpgsql immutable parallel safe
as $$
declare
    v_condition jsonb;
    v_value jsonb;
begin
    for v_condition in select each.value from jsonb_array_elements(p_conditions) as each loop
        v_value := p_data #> array(select jsonb_array_elements_text(v_condition -> 'path'));
        if v_value is null or v_condition ? 'value' and v_value <> v_condition -> 'value' then
            return false;
        end if;
    end loop;
    return true;
end
$$;
