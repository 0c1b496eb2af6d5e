"""Enqueues jobs in every supported way until SIGTERM: `python -m chaos.load --seed 7`.

Each job carries a token, so that the checker recognizes a job whose enqueue got no reply.
"""

import argparse
import asyncio
import os
import signal
import threading
import time
from collections import deque
from random import Random
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import psycopg

from chaos.app import (
    OTHERS,
    app,
    deployed,
    in_child_process,
    ledger,
    limited,
    never_checks,
    on_event_loop,
    on_thread,
    pay,
)
from treadle import Once, Retries, Throttle, Workflow, if_failed, ok_to_fail, wait_for_signal
from treadle.words.after import After

Call: TypeAlias = dict[str, Any]

KINDS = [on_event_loop, on_thread, never_checks, in_child_process, pay, limited, deployed, *OTHERS]
WEIGHTS = [60, 18, 2, 8, 12, 10, 15, 5, 5, 5, 5]
# Many lanes: some jobs have a priority and a queue that hardly any other has.
RARE_PRIORITIES, RARE_QUEUES = 50, 40
KEYS, UNIQUES, TENANTS = 12, 6, 5
WAYS: dict[str, Any] = {"completed": lambda step: step, "ended": ok_to_fail, "failed": if_failed}
PERIOD = 3.0  # in which one job of a throttled text is added
STOP_SECONDS = 15.0


class Load:
    def __init__(self, seed: int, pause: float) -> None:
        self._seed = seed
        self._pause = pause  # average seconds between two calls of one thread or task
        self._stopping = threading.Event()
        self._known: deque[UUID] = deque(maxlen=300)
        self._recent: deque[UUID] = deque(maxlen=50)

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        threads = [
            threading.Thread(target=self._repeat, args=(act, n), daemon=True)
            for n, act in enumerate(
                [self._enqueue, self._enqueue, self._in_a_transaction, self._cancel, self._workflow]
            )
        ]
        threads.append(threading.Thread(target=lambda: asyncio.run(self._aenqueue_all()), daemon=True))
        for thread in threads:
            thread.start()
        while not self._stopping.wait(0.5):
            pass
        for thread in threads:
            thread.join(STOP_SECONDS / len(threads))
        # A thread that still waits for the database has recorded its call as invoked; its result is unknown.
        os._exit(0)

    def _repeat(self, act: Any, nth: int) -> None:
        rng = Random(f"{self._seed} {nth}")
        while not self._stopping.wait(rng.expovariate(1 / self._pause)):
            act(rng)

    # Sync

    def _enqueue(self, rng: Random) -> None:
        function, options, calls = self._choice(rng)
        tokens = self._invoke(function.name, calls, options)
        try:
            if len(calls) == 1:
                handles = [function.using(**options).enqueue(**calls[0])]
            else:
                handles = function.using(**options).enqueue_many(calls)
        except Exception as error:  # after any error the caller does not know whether it was committed
            ledger.note("unknown", tokens=tokens, error=repr(error)[:200])
        else:
            self._returned(tokens, [handle.id for handle in handles], _may_be_cancelled(function, options))

    def _in_a_transaction(self, rng: Random) -> None:
        """Write each job together with a row of another table, in one transaction."""
        commit, committing = rng.random() < 0.7, False
        tokens: list[str] = []
        ids: list[UUID] = []
        try:
            with psycopg.connect(app.database.url, connect_timeout=10) as connection:
                for _ in range(rng.randint(1, 3)):
                    function, options, calls = self._choice(rng, unique=False)
                    for call in calls:
                        call["token"] = f"order-{call['token']}"
                    tokens += self._invoke(function.name, calls, options)
                    query = "insert into public.orders select unnest(%s::text[])"
                    connection.execute(query, [[call["token"] for call in calls]])
                    borrowed = function.using(**options, connection=connection)
                    ids += [handle.id for handle in borrowed.enqueue_many(calls)]
                if commit:
                    committing = True
                    connection.commit()
                else:
                    connection.rollback()
        except Exception as error:
            if not committing:
                ledger.note("rolled_back", tokens=tokens, error=repr(error)[:200])
            else:
                ledger.note("unknown", tokens=tokens, error=repr(error)[:200])
        else:
            if commit:
                self._returned(tokens, ids, may_be_cancelled=False)
            else:
                ledger.note("rolled_back", tokens=tokens)

    def _cancel(self, rng: Random) -> None:
        if self._known and rng.random() < 0.5:
            job_id = self._known.popleft() if rng.random() < 0.5 else self._known.pop()
            ledger.note("cancelling", id=str(job_id))
            try:
                app.handle(job_id).cancel("cancelled by the load")
            except Exception as error:  # the job is finished, or the database is unavailable
                ledger.note("not cancelled", id=str(job_id), error=repr(error)[:200])

    def _workflow(self, rng: Random) -> None:
        """Steps that wait for each other in every way, and for a signal that may come too late."""
        if rng.random() < 0.7:
            return
        flow, signal_step = Workflow("of the load"), None
        promises: dict[str, list[tuple[str, str]]] = {}
        certain: list[tuple[str, Any]] = []
        for _ in range(rng.randint(2, 6)):
            function = rng.choice([on_event_loop, on_event_loop, on_thread, in_child_process, deployed])
            call = self._call(function, rng, [])
            chosen = rng.sample(certain, min(len(certain), rng.choice([0, 1, 1, 2])))
            needs = [rng.choice(["completed", "completed", "ended", "failed"]) for _ in chosen]
            after = [WAYS[need](step) for need, (_, step) in zip(needs, chosen, strict=True)]
            if signal_step is not None and rng.random() < 0.5:
                after.append(ok_to_fail(signal_step))
            step = flow.add(function.call(**call), after=after)
            promises[call["token"]] = [(token, need) for need, (token, _) in zip(needs, chosen, strict=True)]
            if "failed" not in needs:
                certain.append((call["token"], step))
            if signal_step is None and rng.random() < 0.3:
                signal_step = flow.add(wait_for_signal("go", timeout="2s"), after=[step])
        ledger.note("invoked", tokens=list(promises))
        for token, after in promises.items():
            ledger.note("promised", tokens=[token], after=after)
        try:
            handle = flow.enqueue()
            ledger.note("returned", tokens=list(promises), ids=[])
            if signal_step is not None:
                self._stopping.wait(rng.uniform(0, 2.5))
                handle.signal("go")
        except Exception as error:
            ledger.note("unknown", tokens=list(promises), error=repr(error)[:200])

    # Async

    async def _aenqueue_all(self) -> None:
        await asyncio.gather(*(self._arepeat_enqueue(Random(f"{self._seed} async {n}")) for n in range(3)))

    async def _arepeat_enqueue(self, rng: Random) -> None:
        while not self._stopping.is_set():
            await asyncio.sleep(rng.expovariate(1 / self._pause))
            function, options, calls = self._choice(rng)
            tokens = self._invoke(function.name, calls, options)
            try:
                if len(calls) == 1:
                    handles = [await function.using(**options).aenqueue(**calls[0])]
                else:
                    handles = await function.using(**options).aenqueue_many(calls)
            except Exception as error:
                ledger.note("unknown", tokens=tokens, error=repr(error)[:200])
            else:
                self._returned(tokens, [handle.id for handle in handles], _may_be_cancelled(function, options))

    # Choosing jobs, and recording calls

    def _choice(self, rng: Random, unique: bool = True) -> tuple[Any, dict[str, Any], list[Call]]:
        function = rng.choices(KINDS, WEIGHTS)[0]
        options: dict[str, Any] = {"retry": Retries(59 if function is pay else rng.choice([1, 2, 4]))}
        exclusive = []
        if rng.random() < 0.25:
            options["key"] = f"k{rng.randrange(KEYS)}"
            exclusive = [f"key {options['key']}"]
        elif unique and rng.random() < 0.1:
            options["unique"] = Once(key=f"u{rng.randrange(UNIQUES)}")
            exclusive = [f"unique {function.name} {options['unique'].key}"]
        elif unique and rng.random() < 0.1:
            # Two of them may run at once: the claim of the first makes room for the second.
            options["unique"] = Once(key=f"p{rng.randrange(UNIQUES)}", while_pending=True)
        elif unique and rng.random() < 0.1:
            options["unique"] = Throttle(1, PERIOD, key=f"t{rng.randrange(UNIQUES)}")
        if rng.random() < 0.05:
            options["expires"] = "30d"  # longer than jumps of the clock
        if rng.random() < 0.2:
            options["delay"] = round(rng.uniform(0, 1.5), 2)
        if rng.random() < 0.3:
            options["priority"] = rng.choice([30, 150])
        if rng.random() < 0.1:
            options |= {"priority": rng.randrange(RARE_PRIORITIES), "queue": f"q{rng.randrange(RARE_QUEUES)}"}
        if "unique" not in options and self._recent and rng.random() < 0.15:
            recent = list(self._recent)
            chosen = rng.sample(recent, min(len(recent), rng.choice([1, 1, 2, 5])))
            options["after"] = [ok_to_fail(each) if rng.random() < 0.5 else each for each in chosen]
        many = "unique" not in options and function is on_event_loop and rng.random() < 0.1
        calls = [self._call(function, rng, exclusive) for _ in range(rng.randint(2, 25) if many else 1)]
        return function, options, calls

    def _call(self, function: Any, rng: Random, exclusive: list[str]) -> Call:
        call = {
            "token": uuid4().hex,
            "seconds": _seconds(function, rng),
            "exclusive": exclusive,
            "ending": _ending(rng),
        }
        return call | ({"tenant": f"t{rng.randrange(TENANTS)}"} if function in (limited, deployed) else {})

    def _invoke(self, name: str, calls: list[Call], options: dict[str, Any]) -> list[str]:
        tokens = [str(call["token"]) for call in calls]
        after = [
            (each.id, "ended") if isinstance(each, After) else (each, "completed") for each in options.get("after", ())
        ]
        unique = options.get("unique")
        ledger.note(
            "invoked",
            tokens=tokens,
            unique=unique is not None,
            once=[f"{name} {unique.key}", PERIOD] if isinstance(unique, Throttle) else None,
            after=after,
            key=options.get("key"),
            not_before=time.monotonic() + options["delay"] if "delay" in options else None,
        )
        return tokens

    def _returned(self, tokens: list[str], ids: list[UUID], may_be_cancelled: bool) -> None:
        ledger.note("returned", tokens=tokens, ids=[str(each) for each in ids])
        self._recent.extend(ids)
        if may_be_cancelled:
            self._known.extend(ids)


def _may_be_cancelled(function: Any, options: dict[str, Any]) -> bool:
    """A cancelled handler briefly overlaps with the next job of its key or limit (docs/worker.md)."""
    return "key" not in options and "unique" not in options and function.name != "limited"


def _seconds(function: Any, rng: Random) -> float:
    if function is never_checks:
        return round(rng.uniform(0.2, 1.5), 2)
    if function is pay:
        return round(rng.uniform(0, 0.05), 3)
    return rng.choices([0.0, round(rng.uniform(0, 0.1), 3), round(rng.uniform(0.3, 2), 2)], [5, 4, 1])[0]


def _ending(rng: Random) -> dict[str, Any]:
    kind = rng.choices(["", "snoozes", "fails", "crashes", "cancels"], [84, 5, 8, 0.1, 2])[0]
    if not kind:
        return {}
    return {kind: True if kind == "cancels" else rng.choice([1, 1, 2, 9] if kind == "fails" else [1, 2])}


def main() -> None:
    parser = argparse.ArgumentParser(description="Enqueue jobs until SIGTERM.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.15)
    options = parser.parse_args()
    Load(options.seed, options.pause).run()


if __name__ == "__main__":
    main()
