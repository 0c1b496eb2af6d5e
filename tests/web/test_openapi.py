"""Checks the API against its OpenAPI description with generated requests, valid and invalid ones."""

import os
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from psycopg import Connection
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from schemathesis.core.result import Ok

from tests.support.dashboards import OPERATOR, SECRETS
from tests.support.hostile import fill
from tests.support.web import serving
from treadle import Treadle
from treadle.web import dashboard_app
from treadle.web.dashboard.security import role_secrets

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    ignored_auth,
    unsupported_method,
]
# Requests per operation, of each kind: valid and invalid. More find more, slowly: 3 take half as long again.
EXAMPLES = int(os.environ.get("TREADLE_API_EXAMPLES", "2"))


@pytest.mark.long
def test_the_api_conforms_to_its_description(
    app: Treadle, connection: Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(role_secrets, "WRONG_SECRET_SECONDS", 0.0)
    job = fill(connection)[4]
    token = {"authorization": f"Bearer {OPERATOR}"}
    with serving(dashboard_app(app)) as server:
        description = httpx.get(f"{server.url}/api/openapi.json", headers=token, timeout=60).json()
        schema = schemathesis.openapi.from_dict(description)
        requests = 0

        def check(operation: Any, mode: GenerationMode) -> None:
            @settings(
                max_examples=EXAMPLES,
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def one(case: Any) -> None:
                nonlocal requests
                requests += 1
                if mode is GenerationMode.POSITIVE and "id" in case.path_parameters:
                    case.path_parameters["id"] = str(job)  # an existing job
                answer = case.call(base_url=server.url, headers=token, timeout=60)
                case.validate_response(answer, checks=CHECKS, headers=token)

            one()

        for found in schema.get_all_operations():
            assert isinstance(found, Ok)
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                check(found.ok(), mode)
        assert requests > 50
