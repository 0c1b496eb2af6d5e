"""Jobs in the admin, to look at. `manage.py treadle dashboard` can do more."""

import json
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator
from django.utils.html import format_html

from treadle.contrib.django.models import Job
from treadle.text.masking import masked

# Counting stops here: a page of a table with millions of jobs must not count them all.
COUNTED = 10_000


class BoundedPaginator(Paginator):  # type: ignore[misc]
    @cached_property
    def count(self) -> int:
        return int(self.object_list.order_by()[:COUNTED].count())


class JobTypeFilter(admin.SimpleListFilter):  # type: ignore[misc]
    """The types that the application knows: to find all in the table, all jobs would have to be read."""

    title = "job type"
    parameter_name = "job_type"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        from treadle.contrib.django.application import app  # not before `manage.py check` has seen the settings

        return [(name, name) for name in app.job_types]

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset if self.value() is None else queryset.filter(job_type=self.value())


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]
    list_display = ("id", "job_type", "status", "queue", "priority", "attempts", "progress", "run_at", "finished_at")
    list_filter = ("status", JobTypeFilter)
    search_fields = ("id",)
    search_help_text = "The id of a job, or its key."
    fields = (
        *("id", "job_type", "status", "queue", "priority", "key", "attempts", "max_attempts", "worker_id"),
        *("progress", "current_stage", "run_at", "created_at", "started_at", "finished_at"),
        *("arguments", "returned", "error"),
    )
    readonly_fields = fields
    paginator = BoundedPaginator
    show_full_result_count = False

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Exact, by an index."""
        if not search_term:
            return queryset, False
        try:
            return queryset.filter(id=UUID(search_term)), False
        except ValueError:
            return queryset.filter(key=search_term), False

    @admin.display  # type: ignore[untyped-decorator]
    def arguments(self, job: Job) -> str:
        return _shown(job.data)

    @admin.display(description="result")  # type: ignore[untyped-decorator]
    def returned(self, job: Job) -> str:
        return _shown(job.result)

    @admin.display  # type: ignore[untyped-decorator]
    def error(self, job: Job) -> str:
        return _preformatted(masked(job.last_error or "-"))

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


def _shown(value: Any) -> str:
    return _preformatted(json.dumps(masked(value), indent=2, ensure_ascii=False))


def _preformatted(text: str) -> str:
    return str(format_html("<pre style='margin: 0; white-space: pre-wrap'>{}</pre>", text))
