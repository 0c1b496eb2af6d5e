"""Middleware: code of an application around its handlers, and around its calls of enqueue()."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from treadle.attempt.job import Job
from treadle.words.errors import InvalidArgument
from treadle.words.headers import encode_headers

OuterMiddleware: TypeAlias = Callable[[Job, Callable[[], Awaitable[Any]]], Awaitable[Any]]
InnerMiddleware: TypeAlias = Callable[[Job], Iterator[None]]
Middleware = TypeVar("Middleware", bound=OuterMiddleware | InnerMiddleware)


@dataclass(slots=True)
class EnqueueCall:
    """One call of enqueue(), enqueue_many() or of a workflow's enqueue(), as a middleware sees it."""

    job_type: str
    """`workflow` if it is a workflow."""
    headers: dict[str, str]
    """Those of the jobs. A middleware may add more until it yields."""
    ids: list[UUID] = field(default_factory=list)
    """The jobs, once they are enqueued."""


EnqueueMiddleware: TypeAlias = Callable[[EnqueueCall], Iterator[None]]


class Middlewares:
    """The middlewares of an application. Those that were added first are the outermost."""

    def __init__(self) -> None:
        self.outer: list[OuterMiddleware] = []
        """Async functions, which run on the event loop of the worker, wherever the handler runs."""
        self._inner: list[Callable[[Job], AbstractContextManager[None]]] = []
        self._enqueue: list[Callable[[EnqueueCall], AbstractContextManager[None]]] = []

    def add(self, middleware: OuterMiddleware | InnerMiddleware) -> None:
        given: Any = middleware
        if inspect.isgeneratorfunction(given):
            self._inner.append(contextmanager(given))
        elif inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None)):  # noqa: B004
            self.outer.append(given)
        else:
            raise InvalidArgument(
                "a middleware must be an async function with the parameters job and call_next, or a generator function "
                f"with the parameter job that yields once, got {given!r}"
            )

    def add_enqueue(self, middleware: EnqueueMiddleware) -> None:
        if not inspect.isgeneratorfunction(middleware):
            raise InvalidArgument(
                "an enqueue middleware must be a generator function with one parameter, the call, that yields once, "
                f"got {middleware!r}"
            )
        self._enqueue.append(contextmanager(middleware))

    def __bool__(self) -> bool:
        """Whether there are any around handlers."""
        return bool(self.outer or self._inner)

    def call(self, job: Job, handler: Callable[[], Any]) -> Any:
        """Call a sync handler here, within the middlewares that run where it does."""
        if not self._inner:
            return handler()
        with _entered(self._inner, job):
            return handler()

    async def acall(self, job: Job, handler: Callable[[], Awaitable[Any]]) -> Any:
        if not self._inner:
            return await handler()
        with _entered(self._inner, job):
            return await handler()

    def around_enqueue(
        self, job_type: str, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[EnqueueCall]:
        encode_headers(headers)
        call = EnqueueCall(job_type, dict(headers or {}))
        return self._entered(call) if self._enqueue else nullcontext(call)

    @contextmanager
    def _entered(self, call: EnqueueCall) -> Iterator[EnqueueCall]:
        error: BaseException | None = None
        with _entered(self._enqueue, call):
            try:
                yield call
            except BaseException as raised:
                error = raised
                raise
        if error is not None:
            raise error  # a middleware has caught it, but nothing was enqueued


Subject = TypeVar("Subject")


def _entered(
    middlewares: list[Callable[[Subject], AbstractContextManager[None]]], subject: Subject
) -> AbstractContextManager[Any]:
    if len(middlewares) == 1:  # half of the cost for a quick job
        return middlewares[0](subject)
    with ExitStack() as stack:
        for each in middlewares:
            stack.enter_context(each(subject))
        return stack.pop_all()
