-- The counts of a workflow, with what has changed since a tick added that up.
select
    workflow.is_open,
    workflow.jobs operator(pg_catalog.+) coalesce(pg_catalog.sum(change.jobs), 0)::int,
    workflow.completed operator(pg_catalog.+) coalesce(pg_catalog.sum(change.completed), 0)::int,
    workflow.failed operator(pg_catalog.+) coalesce(pg_catalog.sum(change.failed), 0)::int,
    workflow.cancelled operator(pg_catalog.+) coalesce(pg_catalog.sum(change.cancelled), 0)::int
from treadle.workflows as workflow
left join treadle.member_changes as change on change.workflow_id operator(pg_catalog.=) workflow.id
where workflow.id operator(pg_catalog.=) %(id)s
group by workflow.id
