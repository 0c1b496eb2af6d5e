"""`manage.py treadle worker`, and every other command of `treadle`, with the database and the application of the
project."""

import argparse
import os
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError, handle_default_options
from django.db import connections

from treadle.cli import main
from treadle.contrib.django.conf import configuration, database_url
from treadle.words.connections import check_connections

PROGRAM = "manage.py treadle"


class Command(BaseCommand):  # type: ignore[misc]
    help = "Run a command of Treadle, such as worker, dashboard, jobs, show or doctor, for this project."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own declaration

    def run_from_argv(self, argv: list[str]) -> None:
        """All options are for the command of Treadle, also --help, except those of every command of Django."""
        common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        common.add_argument("--settings")
        common.add_argument("--pythonpath")
        options, arguments = common.parse_known_args(argv[2:])
        handle_default_options(options)
        _prepare()
        main(arguments, prog_name=PROGRAM)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("arguments", nargs=argparse.REMAINDER)

    def handle(self, *arguments: str, **options: Any) -> None:
        _prepare()
        try:
            main([*arguments, *options.get("arguments", ())], prog_name=PROGRAM, standalone_mode=False)
        except click.ClickException as error:
            raise CommandError(error.format_message(), returncode=error.exit_code) from error
        except SystemExit as ended:
            if ended.code:
                raise CommandError(f"it ended with exit code {ended.code}") from ended


def _prepare() -> None:
    chosen = configuration()
    os.environ.update(
        TREADLE_APP="treadle.contrib.django.program:app",
        TREADLE_DATABASE_URL=database_url(),
        TREADLE_SCHEMA=chosen.schema,
    )
    if listen_url := check_connections(chosen.options.get("connections")).listen_url:
        os.environ["TREADLE_LISTEN_URL"] = listen_url
    # A worker may run for months, and this process needs none.
    connections.close_all()
