"""The baseline of the schema. Each later version has a migration of its own number."""

from typing import Any, ClassVar

from django.db import migrations, models

from treadle.contrib.django.conf import configuration
from treadle.contrib.django.schema import UpgradeSchema
from treadle.words.status import Status


class Migration(migrations.Migration):  # type: ignore[misc]
    initial = True
    atomic = False
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        UpgradeSchema(1),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("job_type", models.CharField(max_length=50)),
                ("queue", models.CharField(max_length=50)),
                ("priority", models.IntegerField()),
                ("status", models.CharField(max_length=20, choices=[(each.value, each.value) for each in Status])),
                ("data", models.JSONField(verbose_name="arguments")),
                ("result", models.JSONField(null=True)),
                ("progress", models.IntegerField(null=True)),
                ("current_stage", models.CharField(max_length=100, null=True)),
                ("attempts", models.IntegerField()),
                ("max_attempts", models.IntegerField()),
                ("last_error", models.TextField(null=True)),
                ("key", models.CharField(max_length=200, null=True)),
                ("worker_id", models.CharField(max_length=100, null=True)),
                ("run_at", models.DateTimeField()),
                ("created_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": f'"{configuration().schema}"."jobs"',
                "ordering": ("-id",),
                "managed": False,
                "default_permissions": ("view",),
            },
        ),
    ]
