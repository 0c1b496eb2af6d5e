"""The application of the Django project, with the settings of `TREADLE`."""

from django.db import connections
from django.utils.connection import ConnectionProxy

from treadle.app.treadle import Treadle
from treadle.contrib.django.conf import configuration, database_url
from treadle.contrib.django.connections import manage_connections
from treadle.contrib.django.group import jobs

_chosen = configuration()
# Calls use Django's connection, which is another one on each thread. Workers connect by themselves, to the same
# database: `database_url` is called when they do, because a test has another one.
app = Treadle(database_url, connection=ConnectionProxy(connections, _chosen.alias), **_chosen.options)
app.workload.spec = "treadle.contrib.django.program:app"
app.include(jobs)
app.middleware(manage_connections)
