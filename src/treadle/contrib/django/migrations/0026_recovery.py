"""When the next lease runs out."""

from typing import Any, ClassVar

from django.db import migrations

from treadle.contrib.django.schema import UpgradeSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    atomic = False
    dependencies: ClassVar[list[Any]] = [("treadle", "0025_payload_conditions")]
    operations: ClassVar[list[Any]] = [UpgradeSchema(26)]
