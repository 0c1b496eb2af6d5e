"""The table of jobs as a model, to read: for the admin, reports and joins. Jobs change through their functions and
handles, or `manage.py treadle`."""

from typing import Any, NoReturn

from django.db import models

from treadle.contrib.django.conf import configuration
from treadle.words.status import Status

_REFUSED = "jobs are read-only here: enqueue them with their functions, change them with handles or `manage.py treadle`"


class ReadOnlyQuerySet(models.QuerySet):  # type: ignore[misc]
    """All that writes is refused, because it would go round the queue's own functions."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    create = acreate = bulk_create = abulk_create = bulk_update = abulk_update = _refuse
    get_or_create = aget_or_create = update_or_create = aupdate_or_create = _refuse
    update = aupdate = delete = adelete = _refuse


class JobManager(models.Manager.from_queryset(ReadOnlyQuerySet)):  # type: ignore[misc]
    def get_queryset(self) -> Any:
        return super().get_queryset().using(configuration().alias)


class Job(models.Model):  # type: ignore[misc]
    """A job. Its id is that of its handle: `Job.objects.get(id=handle.id)`, `app.handle(job.id)`."""

    id = models.UUIDField(primary_key=True)
    job_type = models.CharField(max_length=50)
    queue = models.CharField(max_length=50)
    priority = models.IntegerField()
    status = models.CharField(max_length=20, choices=[(each.value, each.value) for each in Status])
    data = models.JSONField(verbose_name="arguments")
    result = models.JSONField(null=True)
    progress = models.IntegerField(null=True)
    current_stage = models.CharField(max_length=100, null=True)
    attempts = models.IntegerField()
    max_attempts = models.IntegerField()
    last_error = models.TextField(null=True)
    key = models.CharField(max_length=200, null=True)
    worker_id = models.CharField(max_length=100, null=True)
    run_at = models.DateTimeField()
    created_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = JobManager()

    class Meta:
        managed = False
        # Django takes a name in quotes as it is, so it can have a schema.
        db_table = f'"{configuration().schema}"."jobs"'
        default_permissions = ("view",)
        # Ids are in the order of time, and have an index.
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.job_type} {self.id}"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(_REFUSED)
