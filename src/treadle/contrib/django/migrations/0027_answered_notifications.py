"""Which notification a worker has answered."""

from typing import Any, ClassVar

from django.db import migrations

from treadle.contrib.django.schema import UpgradeSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    atomic = False
    dependencies: ClassVar[list[Any]] = [("treadle", "0026_recovery")]
    operations: ClassVar[list[Any]] = [UpgradeSchema(27)]
