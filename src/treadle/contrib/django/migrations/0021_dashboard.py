"""Tables for the pages of the dashboard."""

from typing import Any, ClassVar

from django.db import migrations

from treadle.contrib.django.schema import UpgradeSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    atomic = False
    dependencies: ClassVar[list[Any]] = [("treadle", "0020_metrics")]
    operations: ClassVar[list[Any]] = [UpgradeSchema(21)]
