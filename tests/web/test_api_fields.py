"""The fields of the API's responses. They are those of values that the whole library uses, so a field that is added to
one of these also appears in the API: this list is where somebody decides whether it should."""

from treadle import Treadle
from treadle.web.dashboard.api import openapi
from treadle.web.dashboard.app import routes

FIELDS = {
    "Act": "examples first jobs",
    "ActJob": "id job_type",
    "ActList": "acts next",
    "Activity": "cancelled completed errors failed failure_share ran rate waited window",
    "AuditEntry": "act action actor at details id job_id job_type queue reason",
    "AuditList": "changes next",
    "Backlog": "counted_at depth due_next due_since exact job_type paused priority queue served",
    "BulkChange": "busy done missing next unfit",
    "Done": "done",
    "Error": "error",
    "ErrorGroup": "exception failures first_seen id job_type last_seen message muted queues trend versions",
    "ErrorGroupDetails": "at example failed group pending versions",
    "ErrorGroupList": "at groups more muted",
    "Event": "at attempt data name number",
    "Example": "error failed_at job_id traceback",
    "FailedAttempt": "attempt error failed_at started_at traceback worker_id",
    "Finding": "detail level name remedy title",
    "FurtherReason": "name short",
    "Graph": "at critical_seconds id jobs more nodes sampled states",
    "GraphNode": "after critical finished_at id job_type jobs label layer number outside seconds started_at states",
    "GroupJob": "attempts error failed_at id max_attempts queue run_at status",
    "GroupJobs": "examined jobs next",
    "Health": "examined_at findings level",
    "JobChange": "id outcome status",
    "JobCopy": "id",
    "JobDetails": (
        "attempts audit checkpoint claimed_at crashes created_at data earlier_events earlier_logs error "
        "events expires_at failed_attempts finished_at headers hidden id job_type key logs max_attempts "
        "priority progress queue result run_at stage started_at status steps unique_key worker_id"
    ),
    "JobList": "examined jobs next reached",
    "JobSummary": (
        "attempts blocked created_at error finished_at id job_type key max_attempts priority progress queue "
        "run_at stage started_at status worker_id"
    ),
    "Limit": (
        "amount at available burst changed_at changed_by declared_amount declared_burst declared_seconds "
        "description exact frees_at in_code in_use job_types key kind lanes name opens_at paused per queues "
        "reached seconds waiting when_full"
    ),
    "LimitList": "limits more",
    "LogLine": "at attempt level logger message number",
    "Mute": "at by reason until until_new_version",
    "Names": "queues types workers",
    "Occurrence": "job_id outcome scheduled_for",
    "Overview": "at lanes pauses rate refusal spans step totals workers",
    "Pause": "job_type paused_at paused_by queue reason",
    "PauseList": "pauses",
    "Place": "activity due_since job_type partly_paused paused queue unserved waiting workers",
    "PlaceDetails": "activities at depths parts spans step summary",
    "QueueList": "at queues window",
    "Schedule": (
        "description error expression history in_code job_type last_at last_job last_outcome name next_at "
        "overlap paused_at priority queue retired_at retry_at state timezone"
    ),
    "ScheduleList": "at exact next schedules total",
    "Span": (
        "at cancelled completed errors failed ran ran_most ran_p50 ran_p95 ran_p99 waited waited_most "
        "waited_p50 waited_p95 waited_p99"
    ),
    "Step": "name result",
    "StoppedChild": "job_id job_type process since starting",
    "StuckWorker": "job_id job_type kind since stack",
    "Times": "mean most p50 p95 p99",
    "Total": "counted_at exact jobs",
    "TypeList": "at types window",
    "VersionCount": "failures first_seen last_seen version",
    "Why": "also data name remedy sentence",
    "Worker": (
        "alive asleep_at at concurrency holds host initial_concurrency job_types jobs_failed jobs_given_back "
        "lease lost_at lost_because pid prefetched queues running seen_at slots started_at state "
        "stopped_children stuck version worker_id"
    ),
    "WorkerList": "workers",
    "Workflow": "cancelled completed created_at failed finished_at id is_open jobs name progress queue state",
    "WorkflowList": "at examined next workflows",
}


def test_the_fields_of_responses_are_those_that_clients_know(app: Treadle) -> None:
    described = [route for route in routes(app) if route.path.startswith("/api/") and route.summary]
    schemas = openapi.describe([route for route in described if route.path != "/api/openapi.json"], "")["components"]
    found = {
        name: " ".join(sorted(each["properties"])) for name, each in schemas["schemas"].items() if "properties" in each
    }
    requests = {model.__name__ for route in described for model in (route.body_model, route.query_model) if model}
    assert {name: fields for name, fields in found.items() if name not in {*requests, "JobFilter"}} == FIELDS
