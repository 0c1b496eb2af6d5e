"""No statistics of the small tables that claims read."""

from typing import Any, ClassVar

from django.db import migrations

from treadle.contrib.django.schema import UpgradeSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    atomic = False
    dependencies: ClassVar[list[Any]] = [("treadle", "0021_dashboard")]
    operations: ClassVar[list[Any]] = [UpgradeSchema(22)]
