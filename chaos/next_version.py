"""A version of Treadle after this one, made for tests of migrations: a copy of the package whose schema is one version
newer. Its migration adds a column to the table of jobs and exchanges an index of it, both prepared beforehand; a
function and a trigger have changed, and one function is new. Older processes can live with it.

A process whose PYTHONPATH begins with the folder runs that version.
"""

import shutil
from pathlib import Path

import treadle

MIGRATION = "0002_regions.compatible.sql"
VERSION = 2

COLUMN = """\
alter table treadle.jobs
    add column if not exists region varchar(50) collate "C" not null default '';
"""
PREPARED = f"""\
-- The search path is not pinned while the index is built: see preparation.py.
{COLUMN}
create index concurrently if not exists idx_jobs_region
    on treadle.jobs (queue, job_type, priority desc, partition, run_at, region)
    where status operator(pg_catalog.=) 'pending'
      and holds operator(pg_catalog.=) 0
      and attempts operator(pg_catalog.<) max_attempts;
"""
MIGRATED = f"""\
-- Both are made beforehand: see the file that ends in .before.sql. In a new schema there is nothing to block.
{COLUMN}
create index if not exists idx_jobs_region
    on treadle.jobs (queue, job_type, priority desc, partition, run_at, region)
    where status = 'pending' and holds = 0 and attempts < max_attempts;

drop index treadle.idx_jobs_claimable;
alter index treadle.idx_jobs_region rename to idx_jobs_claimable;

comment on column treadle.jobs.region is 'Where the job runs.';
"""
ADDED = """\
create or replace function treadle.job_region(p_id uuid) returns varchar
language sql stable
as $$
    select job.region
    from treadle.jobs as job
    where job.id = p_id
$$;

comment on function treadle.job_region(uuid) is 'Where a job runs.';
"""
DJANGO = f"""\
from typing import Any, ClassVar

from django.db import migrations

from treadle.contrib.django.schema import UpgradeSchema


class Migration(migrations.Migration):
    atomic = False
    dependencies: ClassVar[list[Any]] = [("treadle", "0001_baseline")]
    operations: ClassVar[list[Any]] = [UpgradeSchema({VERSION})]
"""
# In each of these files, the last occurrence of a text is replaced.
CHANGES = (
    ("public/tick.sql", "\nend\n$$;", "\n    -- Changed.\nend\n$$;"),
    ("triggers/change_job.sql", "    for each row\n", "    for each row -- changed\n"),
)


def write_next_version(folder: Path) -> None:
    package = folder / "treadle"
    shutil.copytree(Path(treadle.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    migrations, functions = package / "sql" / "migrations", package / "sql" / "functions"
    (migrations / MIGRATION).write_text(MIGRATED)
    (migrations / MIGRATION.replace(".sql", ".before.sql")).write_text(PREPARED)
    (functions / "public" / "job_region.sql").write_text(ADDED)
    (package / "contrib" / "django" / "migrations" / "0002_regions.py").write_text(DJANGO)
    for name, old, new in CHANGES:
        head, found, tail = (functions / name).read_text().rpartition(old)
        if not found:
            raise AssertionError(f"{name} does not contain {old!r}")
        (functions / name).write_text(f"{head}{new}{tail}")
