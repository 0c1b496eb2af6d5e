-- Whether a part of an act has been carried out, along idx_audit_acts.
select exists (
    select
    from treadle.audit as entry
    where entry.act = %(act)s
      and entry.begins
)
