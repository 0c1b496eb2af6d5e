"""Child processes that were stopped."""

from typing import Any, ClassVar

from django.db import migrations

from treadle.contrib.django.schema import UpgradeSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    atomic = False
    dependencies: ClassVar[list[Any]] = [("treadle", "0023_deployments")]
    operations: ClassVar[list[Any]] = [UpgradeSchema(24)]
