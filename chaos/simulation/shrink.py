"""The shortest plan that still fails: delta debugging. What is left of it can be kept as a test."""

from collections.abc import Callable
from dataclasses import replace

from chaos.simulation.plan import Choice, Plan


def shrunk(plan: Plan, fails: Callable[[Plan], bool], most: int = 200) -> Plan:
    """Leave out as many choices as possible: first halves, then smaller and smaller parts. At most so many trials."""
    choices, part = list(plan.choices), max(1, len(plan.choices) // 2)
    trials = 0
    while trials < most:
        begin, shorter = 0, False
        while begin < len(choices) and trials < most:
            fewer = choices[:begin] + choices[begin + part :]
            trials += 1
            if fails(replace(plan, choices=tuple(fewer))):
                choices, shorter = fewer, True
            else:
                begin += part
        if part == 1 and not shorter:
            break
        part = max(1, part // 2)
    return replace(plan, choices=tuple(choices))


def written(plan: Plan) -> str:
    """As Python, for a test."""
    choices = "".join(f"        {_written(each)},\n" for each in plan.choices)
    return f"Plan(\n    {plan.seed},\n    (\n{choices}    ),\n    poll={plan.poll!r},\n)"


def _written(choice: Choice) -> str:
    machine = f", {choice.machine}" if choice.machine else ""
    how = f", how={choice.how!r}" if choice.how else ""
    return f"Choice({choice.at!r}, {choice.what!r}{machine}{how})"
