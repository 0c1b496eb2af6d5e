"""Describes the machine: sizes and versions, but no names."""

import os
import platform
import subprocess
from typing import Any

import psutil

from benchmarks.peers.install import node, python


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": _output([python(), "-c", "import platform; print(platform.python_version())"]),
        "node": _output([node(), "--version"]).lstrip("v"),
    }


def _processor() -> str:
    lines = _output(["lscpu"]).splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name")), "unknown")


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
