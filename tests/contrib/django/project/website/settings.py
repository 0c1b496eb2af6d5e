import json
import os

from psycopg.conninfo import conninfo_to_dict

from treadle import Backoff, Retries

parts = conninfo_to_dict(os.environ["PROJECT_DATABASE"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "HOST": parts["host"],
        "PORT": str(parts.get("port", "")),
        "PASSWORD": parts.get("password", ""),
        "CONN_MAX_AGE": json.loads(os.environ.get("PROJECT_CONN_MAX_AGE", "0")),
        "CONN_HEALTH_CHECKS": "PROJECT_HEALTH_CHECKS" in os.environ,
        "OPTIONS": json.loads(os.environ.get("PROJECT_OPTIONS", "{}")),
        "ATOMIC_REQUESTS": True,
    },
    "file": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "treadle.contrib.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
TREADLE = json.loads(os.environ.get("PROJECT_TREADLE", "{}"))
TASKS = {
    "default": {
        "BACKEND": "treadle.contrib.django.TreadleBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"retry": Retries(1, backoff=Backoff(first="10ms"), give_up_on=LookupError)},
    },
    "apart": {"BACKEND": "treadle.contrib.django.TreadleBackend", "OPTIONS": {"process": True}},
    "other": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
}
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "website.urls"
SECRET_KEY = "not a secret: tests only"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
