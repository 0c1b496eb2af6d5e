"""Integrations need extras; without them, nothing but the integrations is affected."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("extra", "library"), [("opentelemetry", "opentelemetry"), ("sentry", "sentry_sdk")])
def test_an_integration_names_the_extra_that_it_needs(extra: str, library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import treadle.contrib.{extra}"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert f'run: pip install "treadle[{extra}]"' in done.stderr


def test_a_worker_does_not_import_them_unless_the_application_does() -> None:
    code = "import sys, treadle.worker, treadle.app; print({'opentelemetry', 'sentry_sdk'} & sys.modules.keys())"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout == "set()\n"
