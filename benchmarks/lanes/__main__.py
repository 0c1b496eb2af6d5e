"""Measures what many lanes cost, on a server of its own: python -m benchmarks.lanes [SCENARIO …] [--quick]

It measures the Treadle that Python imports; for another checkout: PYTHONPATH=OTHER/src python -m benchmarks.lanes.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from math import isfinite
from pathlib import Path

import treadle
from benchmarks.lanes.scenarios import QUICK, SCENARIOS, Row, Sizes
from benchmarks.lanes.server import running_server
from benchmarks.lanes.statements import LIMIT


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    sizes = _sizes(options)
    print(f"Treadle in {Path(treadle.__file__).parent}")
    measured: dict[str, list[dict[str, object]]] = {}
    with running_server() as server:
        for name in options.scenario or SCENARIOS:
            description, scenario = SCENARIOS[name]
            print(f"\n{name}: {description}")
            begin = time.monotonic()
            table: list[Row] = []
            for row in scenario(server, sizes):
                _print_row(row, table[-1] if table else None)
                table.append(row)
            print(f"({time.monotonic() - begin:.0f} s)")
            measured[name] = [{"case": case, **_finite(figures)} for case, figures in table]
            if options.output:
                options.output.write_text(json.dumps(measured, indent=2) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lanes",
        description=__doc__.split("\n\n")[1],
        epilog="scenarios: " + "; ".join(f"{name}: {about}" for name, (about, _) in SCENARIOS.items()),
    )
    parser.add_argument("scenario", nargs="*", metavar="SCENARIO", help="all if none is named")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that everything works")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the figures as JSON")
    for field in fields(Sizes):
        several = isinstance(field.default, tuple)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=_numbers if several else int,
            metavar="N,N" if several else "N",
            help=f"instead of {str(field.default).strip('()')}",
        )
    options = parser.parse_args(arguments)
    if unknown := set(options.scenario) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    return options


def _sizes(options: argparse.Namespace) -> Sizes:
    given = {field.name: getattr(options, field.name) for field in fields(Sizes)}
    return replace(
        QUICK if options.quick else Sizes(), **{name: size for name, size in given.items() if size is not None}
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _print_row(row: Row, above: Row | None) -> None:
    case, figures = row
    widths = {name: max(len(name), 9) + 2 for name in figures}
    if above is None or list(above[1]) != list(figures):
        print(f"  {'':30}" + "".join(f"{name:>{width}}" for name, width in widths.items()))
    print(f"  {case:30}" + "".join(f"{_shown(figures[name]):>{width}}" for name, width in widths.items()), flush=True)


def _finite(figures: dict[str, float]) -> dict[str, float | None]:
    return {name: value if isfinite(value) else None for name, value in figures.items()}


def _shown(value: float) -> str:
    if not isfinite(value):
        return f"over {LIMIT} s"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.2f}"


if __name__ == "__main__":
    main()
