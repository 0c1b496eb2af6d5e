"""Brings jobs, in every way there is, until it is told to stop: `python -m chaos.load --seed 7`.

Each job carries a token, so that one whose enqueue got no answer is known again when it turns up.
"""

import argparse
import asyncio
import os
import random
import signal
import threading
from collections import deque
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import psycopg

from chaos.app import apart, app, ledger, on_a_thread, on_the_loop, pay, stubborn

Chance: TypeAlias = random.Random
Call: TypeAlias = dict[str, Any]

KINDS = [on_the_loop, on_a_thread, stubborn, apart, pay]
WEIGHTS = [60, 18, 2, 8, 12]
KEYS, UNIQUES = 12, 6
STOP_SECONDS = 15.0


class Load:
    def __init__(self, seed: int, pause: float) -> None:
        self._seed = seed
        self._pause = pause  # seconds between two calls of one caller, on average
        self._over = threading.Event()
        self._known: deque[UUID] = deque(maxlen=300)

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._over.set())
        threads = [
            threading.Thread(target=self._again_and_again, args=(act, n), daemon=True)
            for n, act in enumerate([self._enqueue, self._enqueue, self._in_a_transaction, self._cancel])
        ]
        threads.append(threading.Thread(target=lambda: asyncio.run(self._aenqueue_all()), daemon=True))
        for thread in threads:
            thread.start()
        while not self._over.wait(0.5):
            pass
        for thread in threads:
            thread.join(STOP_SECONDS / len(threads))
        # Whoever still waits for the database has been invoked, and no more is known.
        os._exit(0)

    def _again_and_again(self, act: Any, nth: int) -> None:
        chance = Chance(f"{self._seed} {nth}")
        while not self._over.wait(chance.expovariate(1 / self._pause)):
            act(chance)

    # Sync

    def _enqueue(self, chance: Chance) -> None:
        function, options, calls = self._choice(chance)
        tokens = self._invoke(calls, options)
        try:
            if len(calls) == 1:
                handles = [function.using(**options).enqueue(**calls[0])]
            else:
                handles = function.using(**options).enqueue_many(calls)
        except Exception as error:  # whichever it is: the caller does not know
            ledger.note("unknown", tokens=tokens, error=repr(error)[:200])
        else:
            self._returned(tokens, [handle.id for handle in handles], options)

    def _in_a_transaction(self, chance: Chance) -> None:
        """With a row of its own for each job: both or neither."""
        commit, committing = chance.random() < 0.7, False
        tokens: list[str] = []
        ids: list[UUID] = []
        try:
            with psycopg.connect(app.database.url, connect_timeout=10) as connection:
                for _ in range(chance.randint(1, 3)):
                    function, options, calls = self._choice(chance, unique=False)
                    for call in calls:
                        call["token"] = f"order-{call['token']}"
                    tokens += self._invoke(calls, options)
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
                ledger.note("undone", tokens=tokens, error=repr(error)[:200])
            else:
                ledger.note("unknown", tokens=tokens, error=repr(error)[:200])
        else:
            if commit:
                self._returned(tokens, ids, {"key": "not to be cancelled"})
            else:
                ledger.note("undone", tokens=tokens)

    def _cancel(self, chance: Chance) -> None:
        if self._known and chance.random() < 0.5:
            job_id = self._known.popleft() if chance.random() < 0.5 else self._known.pop()
            ledger.note("cancelling", id=str(job_id))
            try:
                app.handle(job_id).cancel("the load")
            except Exception as error:  # it has ended, or the database is away
                ledger.note("not cancelled", id=str(job_id), error=repr(error)[:200])

    # Async

    async def _aenqueue_all(self) -> None:
        await asyncio.gather(*(self._aenqueue_again(Chance(f"{self._seed} async {n}")) for n in range(3)))

    async def _aenqueue_again(self, chance: Chance) -> None:
        while not self._over.is_set():
            await asyncio.sleep(chance.expovariate(1 / self._pause))
            function, options, calls = self._choice(chance)
            tokens = self._invoke(calls, options)
            try:
                if len(calls) == 1:
                    handles = [await function.using(**options).aenqueue(**calls[0])]
                else:
                    handles = await function.using(**options).aenqueue_many(calls)
            except Exception as error:
                ledger.note("unknown", tokens=tokens, error=repr(error)[:200])
            else:
                self._returned(tokens, [handle.id for handle in handles], options)

    # What is enqueued, and what is known of it

    def _choice(self, chance: Chance, unique: bool = True) -> tuple[Any, dict[str, Any], list[Call]]:
        function = chance.choices(KINDS, WEIGHTS)[0]
        options: dict[str, Any] = {"max_attempts": 60 if function is pay else chance.choice([2, 3, 5])}
        alone = []
        if chance.random() < 0.25:
            options["key"] = f"k{chance.randrange(KEYS)}"
            alone = [f"key {options['key']}"]
        elif unique and chance.random() < 0.1:
            options["unique"] = f"u{chance.randrange(UNIQUES)}"
            alone = [f"unique {function.name} {options['unique']}"]
        if chance.random() < 0.2:
            options["delay"] = round(chance.uniform(0, 1.5), 2)
        if chance.random() < 0.3:
            options["priority"] = chance.choice([30, 150])
        many = "unique" not in options and function is on_the_loop and chance.random() < 0.1
        calls = [
            {"token": uuid4().hex, "seconds": _seconds(function, chance), "alone": alone, "then": _then(chance)}
            for _ in range(chance.randint(2, 25) if many else 1)
        ]
        return function, options, calls

    def _invoke(self, calls: list[Call], options: dict[str, Any]) -> list[str]:
        tokens = [str(call["token"]) for call in calls]
        ledger.note("invoked", tokens=tokens, unique=options.get("unique"), max_attempts=options["max_attempts"])
        return tokens

    def _returned(self, tokens: list[str], ids: list[UUID], options: dict[str, Any]) -> None:
        ledger.note("returned", tokens=tokens, ids=[str(each) for each in ids])
        # The end of a cancelled one overlaps with the next of its key, for a moment (docs/worker.md).
        if "key" not in options and "unique" not in options:
            self._known.extend(ids)


def _seconds(function: Any, chance: Chance) -> float:
    if function is stubborn:
        return round(chance.uniform(0.2, 1.5), 2)
    if function is pay:
        return round(chance.uniform(0, 0.05), 3)
    return chance.choices([0.0, round(chance.uniform(0, 0.1), 3), round(chance.uniform(0.3, 2), 2)], [5, 4, 1])[0]


def _then(chance: Chance) -> dict[str, Any]:
    kind = chance.choices(["", "snoozes", "fails", "crashes", "cancels"], [84, 5, 8, 0.1, 2])[0]
    if not kind:
        return {}
    return {kind: True if kind == "cancels" else chance.choice([1, 1, 2, 9] if kind == "fails" else [1, 2])}


def main() -> None:
    parser = argparse.ArgumentParser(description="Brings jobs until SIGTERM.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.15)
    asked = parser.parse_args()
    Load(asked.seed, asked.pause).run()


if __name__ == "__main__":
    main()
