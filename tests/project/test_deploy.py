"""What is in deploy/: each file is valid for the program that reads it, and fits our commands and settings."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from kubernetes_validate import validate

from treadle.cli import main
from treadle.words.duration import duration
from treadle.worker.options import FLUSH_SECONDS, STOP_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
]
# The oldest version whose schema the validator has, and newer ones.
KUBERNETES = ("1.25", "1.31", "1.37")
PLACEHOLDER = "PASSWORD"
HAS_SYSTEMD = shutil.which("systemd-analyze") is not None
needs_systemd = pytest.mark.skipif(not HAS_SYSTEMD, reason="systemd-analyze is not installed")


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every container of every pod, with the specification of its pod."""
    for manifest in MANIFESTS:
        if manifest["kind"] in ("Deployment", "Job"):
            pod = manifest["spec"]["template"]["spec"]
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                yield pod, container


def unit(name: str) -> dict[str, list[str]]:
    """The settings of a unit."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def of(component: str) -> dict[str, Any]:
    (found,) = (
        manifest["spec"]["template"]["spec"]
        for manifest in MANIFESTS
        if manifest["kind"] == "Deployment" and manifest["metadata"]["name"] == component
    )
    return dict(found)


def config_map() -> dict[str, str]:
    (found,) = (manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    return dict(found)


def test_the_dockerfile_has_no_findings() -> None:
    done = subprocess.run(
        [program("hadolint"), str(DEPLOY / "Dockerfile")], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_treadle_itself_as_a_user_that_is_not_root() -> None:
    last_stage = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.findall(r"^USER (.*)", last_stage, re.MULTILINE) == ["10001:10001"]
    assert '\nENTRYPOINT ["treadle"]\n' in last_stage
    assert "\nSTOPSIGNAL SIGTERM\n" in last_stage
    assert DOCKERFILE.count("\nFROM ") == 2  # neither pip's cache nor our sources are in the image


def test_the_build_gets_all_files_that_it_copies_and_no_others() -> None:
    allowed = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    app = str(re.findall(r"^ARG APP=(.*)", DOCKERFILE, re.MULTILINE)[0])
    names = {name for line in copied for name in line.replace("${APP}", app).split()}
    assert names == allowed | {f"{app}/requirements.txt"}
    assert all((DEPLOY.parent / name).exists() for name in names)


def test_the_compose_file_follows_its_schema() -> None:
    command = [program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_nothing_starts_before_the_migration_in_compose() -> None:
    services = COMPOSE["services"]
    assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    for name in services.keys() - {"database", "migrate"}:
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert services[name]["healthcheck"]["test"][:3] == ["CMD", "treadle", "ping"]


@needs_systemd
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    names = []
    for path in UNITS:
        name = path.name.replace("@.", "@mail.")  # an instance of the template
        # The program must exist, and /opt/treadle is not here.
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/treadle/bin/treadle", sys.executable))
        names.append(str(tmp_path / name))
    done = subprocess.run(["systemd-analyze", "verify", *names], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
@pytest.mark.parametrize("path", UNITS, ids=lambda path: str(path.name))
def test_units_are_hardened(path: Path) -> None:
    """As systemd itself rates it: 0 is best, 10 is worst, and a unit without these settings has 9.2."""
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd is older than 250")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_manifests_follow_the_schema_of_kubernetes(version: str) -> None:
    for manifest in MANIFESTS:
        validate(manifest, version, strict=True)


def test_pods_have_no_privileges_and_no_variables_of_services() -> None:
    for pod, container in containers():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        # A Service named treadle-dashboard would set TREADLE_DASHBOARD_PORT, which is the variable of --port.
        assert pod["enableServiceLinks"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"].keys() == {"memory"}
    services = [manifest["metadata"]["name"] for manifest in MANIFESTS if manifest["kind"] == "Service"]
    assert not any(name.startswith("treadle") for name in services)


def test_probes_ask_the_port_that_the_container_opens() -> None:
    for name, port in (("treadle-worker", "8080"), ("treadle-dashboard", "8000")):
        (container,) = of(name)["containers"]
        (named,) = container["ports"]
        assert str(named["containerPort"]) == port == container["args"][-1]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == named["name"]
    (worker,) = of("treadle-worker")["containers"]
    paths = [worker[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert paths == ["/live", "/live", "/ready"]  # liveness must not depend on the database


def test_labels_select_the_pods_that_they_are_meant_for() -> None:
    pods = {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["metadata"]["labels"]
        for manifest in MANIFESTS
        if manifest["kind"] == "Deployment"
    }
    for manifest in MANIFESTS:
        selector = manifest.get("spec", {}).get("selector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector)
            component = f"treadle-{wanted['app.kubernetes.io/component']}"
            assert [name for name, labels in pods.items() if wanted.items() <= labels.items()] == [component]


def test_secrets_and_settings_that_pods_name_exist() -> None:
    (secret,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Secret")
    used = set()
    for _, container in containers():
        for variable in container["env"]:
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference["name"] == secret["metadata"]["name"]
            used.add(reference["key"])
        for source in container.get("envFrom", []):
            assert source == {"configMapRef": {"name": "treadle"}}
    assert used == secret["stringData"].keys()


def test_a_worker_is_given_longer_to_stop_than_it_may_take() -> None:
    (started,) = unit("treadle-worker@.service")["ExecStart"]
    grace = shlex.split(started)[shlex.split(started).index("--grace") + 1]
    worker = COMPOSE["services"]["worker"]
    for given, granted in (
        (unit("treadle-worker@.service")["TimeoutStopSec"][0], grace),
        (worker["stop_grace_period"], worker["environment"]["TREADLE_WORKER_GRACE"]),
        (f"{of('treadle-worker')['terminationGracePeriodSeconds']}s", config_map()["TREADLE_WORKER_GRACE"]),
    ):
        needed = duration(granted, "grace").total_seconds() + STOP_SECONDS + FLUSH_SECONDS + 1
        assert duration(given, "stop").total_seconds() > needed


def commands() -> Iterator[list[str]]:
    """Every command of treadle in deploy/, without its name."""
    yield json.loads(re.findall(r"^CMD (.*)", DOCKERFILE, re.MULTILINE)[0])
    for name, service in COMPOSE["services"].items():
        if name != "database":
            yield service["command"]
            if "healthcheck" in service:
                yield service["healthcheck"]["test"][2:]
    for _, container in containers():
        yield container["args"]
    for path in UNITS:
        for started in unit(path.name)["ExecStart"]:
            yield shlex.split(started)[1:]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_commands_have_the_options_that_are_used(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_APP", "jobs:app")
    for name, value in config_map().items():
        monkeypatch.setenv(name, value)
    assert isinstance(main, click.Group)
    context = main.make_context("treadle", list(command))
    resolved, found, arguments = main.resolve_command(context, list(command))
    assert found is not None
    found.make_context(resolved, arguments, parent=context)


def test_variables_are_settings() -> None:
    text = "".join(path.read_text() for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".py")
    names = set(re.findall(r"\bTREADLE_[A-Z_]+\b", text)) - {"TREADLE_DASHBOARD_PORT"}  # named in a warning
    assert "TREADLE_WORKER_GRACE" in names
    shown = CliRunner().invoke(main, ["config"], env=dict.fromkeys(names, "1"))
    assert shown.exit_code == 0, shown.output
    # Not those that other tests have left in the environment.
    said = " ".join(shown.output.split())
    assert not [name for name in names if f"{name} is set, but is no setting" in said]


def test_no_file_has_a_secret() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            for password in re.findall(r"postgresql://[^:@/\s]+:([^@\s]+)@", path.read_text()):
                assert password == PLACEHOLDER, path
    values = re.findall(r"^[A-Z_]+=(.*)", (DEPLOY / "env.example").read_text(), re.MULTILINE)
    assert values == ["", ""]
