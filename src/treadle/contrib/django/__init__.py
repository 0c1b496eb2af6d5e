"""Treadle in a Django project: `INSTALLED_APPS += ["treadle.contrib.django"]`.

from treadle.contrib.django import job

@job
def welcome(user_id: int) -> None: ...

welcome.enqueue(user_id=7)  # part of the transaction of Django's connection
"""

from typing import TYPE_CHECKING

from treadle.contrib.django.group import job, jobs

if TYPE_CHECKING:
    from treadle.contrib.django.application import app
    from treadle.contrib.django.backend import TreadleBackend

__all__ = ["TreadleBackend", "app", "job", "jobs"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # On first use: the application needs the settings, and the backend needs Django 6.
        if name == "app":
            from treadle.contrib.django.application import app

            return app
        if name == "TreadleBackend":
            from treadle.contrib.django.backend import TreadleBackend

            return TreadleBackend
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
