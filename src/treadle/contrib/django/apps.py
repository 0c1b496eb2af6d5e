"""The entry of INSTALLED_APPS."""

import sys
from contextlib import suppress

from django import VERSION
from django.apps import AppConfig
from django.apps.registry import Apps
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules, import_string

from treadle.contrib.django.checks import check_schema, check_settings, find_mistakes
from treadle.contrib.django.conf import configuration
from treadle.contrib.django.schema import upgrade_after_migrate
from treadle.jobs.group import JobGroup
from treadle.words.commands import call_commands


class TreadleConfig(AppConfig):  # type: ignore[misc]
    name = "treadle.contrib.django"
    label = "treadle"
    verbose_name = "Treadle"

    def ready(self) -> None:
        call_commands(
            "manage.py treadle",
            {"treadle migrate": "manage.py migrate", "treadle worker module:app": "manage.py treadle worker"},
        )
        checks.register(check_settings)
        checks.register(check_schema, checks.Tags.database)
        if find_mistakes():  # `manage.py check` names them
            return
        from treadle.contrib.django.application import app

        post_migrate.connect(upgrade_after_migrate, sender=self, dispatch_uid="treadle")
        name = configuration().jobs_module
        autodiscover_modules(name)
        modules = (sys.modules.get(f"{each.name}.{name}") for each in self.apps.get_app_configs())
        for module in filter(None, modules):
            app.include(*(value for value in vars(module).values() if type(value) is JobGroup))
        if VERSION >= (6,):
            _start_backends(self.apps, name)


def _start_backends(apps: Apps, jobs_module: str) -> None:
    """Backends declare the job types of tasks, which workers must know: of those in the modules `tasks` and `jobs` of
    all apps, which every process imports."""
    from django.tasks import Task, task_backends

    from treadle.contrib.django.backend import TreadleBackend

    backends = []
    for alias, params in task_backends.settings.items():
        with suppress(ImportError):  # Django tells, when it is used
            if issubclass(import_string(params["BACKEND"]), TreadleBackend):
                backends.append(task_backends[alias])
    if not backends:
        return
    autodiscover_modules("tasks")
    names = (f"{each.name}.{name}" for each in apps.get_app_configs() for name in ("tasks", jobs_module))
    found = (value for name in names if name in sys.modules for value in vars(sys.modules[name]).values())
    tasks = {value.module_path: value for value in found if isinstance(value, Task)}
    for backend in backends:
        backend.declare(tasks.values())
