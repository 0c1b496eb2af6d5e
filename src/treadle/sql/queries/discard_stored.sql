-- Reading the source failed: the next sweep removes the parts that were written.
with unused as (
    delete from treadle.stored_uses
    where stored_id operator(pg_catalog.=) %(id)s
)
update treadle.stored
set removing_at = '-infinity'
where id operator(pg_catalog.=) %(id)s
  and size is null
returning id
