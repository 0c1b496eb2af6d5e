"""The same application for worker processes and their children, which have to set Django up first:
`treadle worker treadle.contrib.django.program`. It needs DJANGO_SETTINGS_MODULE."""

import django
from django.apps import apps

if not apps.ready:
    django.setup()

from treadle.contrib.django.application import app as app
