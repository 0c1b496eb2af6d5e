"""A worker whose event loop does not run, or that does not begin its jobs, in words: the same on pages, at the command
line and in the log."""

import re
from collections.abc import Sequence
from datetime import datetime

from treadle.words.formatting import printable, span
from treadle.words.stuck import StoppedChild, Stuck

_FRAME = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
# The first lines of a stack. The first one: it was dumped from outside, because no thread of the process answered.
GIL_HELD = "No thread of the process answered: one of them does not release the GIL."
OTHER_THREAD = "Another thread:"
# Processes of one host, and hosts, whose commands are shown.
MOST = 20


def describe_stopped(child: StoppedChild, at: datetime) -> str:
    seconds = span(max(0.0, (at - child.since).total_seconds()))
    if child.starting:
        return f"a child process has been starting for {seconds}{_working_on(child)}"
    return f"child process {child.process} was stopped {seconds} ago, by a signal or a debugger{_working_on(child)}"


def _working_on(child: StoppedChild) -> str:
    return f", with job {child.job_id}" + (f" ({printable(child.job_type)})" if child.job_type else "")


def summarize_stopped(children: Sequence[StoppedChild]) -> str:
    """For a narrow column."""
    starting = sum(each.starting for each in children)
    if len(children) == 1:
        return "a child process starts slowly" if starting else f"child process {children[0].process} is stopped"
    if starting == len(children):
        return f"{starting} child processes start slowly"
    return f"{len(children)} child processes are stopped" + (" or start slowly" if starting else "")


def continue_children(*children: tuple[StoppedChild, str | None]) -> str:
    """What to do about these child processes, each with its host."""
    processes = [(each, host, each.process) for each, host in children if not each.starting]
    starting = (
        "A child process imports the application before its first job: the machine may be overloaded, or the imports "
        "be slow (python -X importtime). Its job has used no attempt"
    )
    if not processes:
        return starting
    it, job, run = ("it", "its job", "runs") if len(processes) == 1 else ("them", "their jobs", "run")
    return (
        f"To let {it} continue{_commands('kill -CONT', processes)}. "
        f"To replace {it}{_commands('kill -9', processes)}; {job} {run} again"
        + (f". {starting}" if len(processes) < len(children) else "")
    )


def describe_stuck(stuck: Stuck, at: datetime) -> str:
    """What is the matter, for how long and, if it is known, because of which job and where."""
    seconds = span(max(0.0, (at - stuck.since).total_seconds()))
    if stuck.kind == "stopped":
        return f"its process was stopped {seconds} ago, by a signal or a debugger"
    job = f"job {stuck.job_id}" + (f" ({printable(stuck.job_type)})" if stuck.job_type else "")
    if stuck.kind == "unbegun":
        return f"it has not begun {job}, which it claimed {seconds} ago, although it has room for it"
    by = "" if stuck.job_id is None else f" by {job}"
    return f"its event loop has been blocked for {seconds}{by}{where_blocked(stuck.stack)}"


def where_blocked(stack: str | None) -> str:
    """The innermost frame of the first stack."""
    frames = _frames(stack)
    if not frames:
        return ""
    file, line, function = frames[-1]
    return f", at {printable(file)[-200:]} line {line} in {printable(function)[:100]}"


def summarize_stuck(stuck: Stuck) -> str:
    """For a narrow column: what blocks it comes first. How long is said elsewhere."""
    if stuck.kind == "stopped":
        return "stopped by a signal or a debugger"
    if stuck.kind == "unbegun":
        return "does not begin what it has claimed"
    frames = _frames(stuck.stack)
    # The first one is the handler.
    file, line, function = frames[0] if frames else ("", "", "")
    where = f"{printable(file).rpartition('/')[2][-60:]}:{line}"
    if stuck.job_type:
        return f"blocked by {printable(stuck.job_type)}" + (f" at {where}" if frames else "")
    return f"blocked in {printable(function)[:60]} at {where}" if frames else "its event loop is blocked"


def unblock(*processes: tuple[Stuck, str | None, int | None]) -> str:
    """What to do about these workers, each with its host and the number of its process."""
    stopped = [each for each in processes if each[0].kind == "stopped"]
    blocked = [each for each in processes if each[0].kind == "blocked"]
    holding = [each for each in blocked if holds_gil(each[0].stack)]
    said = []
    if stopped:
        said.append(f"To let {_it(stopped, 'it', 'them')} continue{_commands('kill -CONT', stopped)}")
    if holding:
        said.append(
            "A handler does not release the GIL, for example in a long regular expression, so that no other thread of "
            "its process runs: declare it with process=True. A thread does not help"
        )
    if len(holding) < len(blocked):
        said.append(
            "An async handler must not block: declare it with def, so that it runs in a thread, or with process=True"
        )
    if blocked:
        said.append('With @app.job(timeout=("25s", "30s")), the supervisor replaces a process that blocks for longer')
    if len(stopped) + len(blocked) < len(processes):
        said.append("A part of the worker has failed: its log may say why")
    it, its = _it(processes, "the process", "the processes"), _it(processes, "its", "their")
    said.append(f"To replace {it}{_commands('kill -9', processes)}; {its} jobs run again")
    return ". ".join(said)


def holds_gil(stack: str | None) -> bool:
    """Whether a thread of the process keeps all others from running, as far as the stack tells."""
    return (stack or "").startswith((GIL_HELD, OTHER_THREAD))


def _frames(stack: str | None) -> list[tuple[str, str, str]]:
    """Of the first stack, the outermost first: file, line and function."""
    return _FRAME.findall((stack or "").partition("\n\n")[0])


def _it(processes: Sequence[object], one: str, several: str) -> str:
    return one if len(processes) == 1 else several


def _commands(command: str, processes: Sequence[tuple[object, str | None, int | None]]) -> str:
    """With the processes of each host, as many as fit into a line."""
    hosts: dict[str, list[str]] = {}
    for _, host, pid in processes:
        hosts.setdefault(f" on {printable(host)}" if host else "", []).append(str(pid) if pid else "PID")
    return ";".join(
        f"{on}: {command} {' '.join(numbers[:MOST])}{' …' if len(numbers) > MOST else ''}"
        for on, numbers in list(hosts.items())[:MOST]
    )
