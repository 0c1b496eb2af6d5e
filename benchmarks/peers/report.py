from pathlib import Path


def write(output: Path) -> None:
    pass
