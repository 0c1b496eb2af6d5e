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

__all__ = ["app", "job", "jobs"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "app":  # on first use, because it needs the settings
            from treadle.contrib.django.application import app

            return app
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
