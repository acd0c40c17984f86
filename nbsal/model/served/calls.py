"""Calls of a server: counted before they are sent, within the budget, a few at a time, again after failures."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from nbsal.model.served.cache import CallCache
from nbsal.support.errors import OverBudget, ServerError
from nbsal.support.progress import Meter
from nbsal.support.validation import plural

ATTEMPTS = 4  # at one call
FIRST = 0.25  # seconds before the second attempt; twice as many before each further one
LONGEST = 60.0  # seconds that a server may ask to wait
TICK = 0.1  # seconds between two looks whether the caller has cancelled
GRACE = 1.0  # seconds that all calls on their way have to finish when a run stops
BATCH = 16  # pairs that a function gets at a time


class Failure(Exception):
    """A request that failed; `again` says whether another attempt is worth it, `wait` when the server expects it.

    It is `absent` if there is no such server, no such model on it, or none for that key.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        again: bool = False,
        wait: float | None = None,
        absent: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.again = again
        self.wait = wait
        self.absent = absent


class Limits(Protocol):
    """What is needed of an `Endpoint`, whose own file names what is built on calls."""

    @property
    def address(self) -> str: ...
    @property
    def identity(self) -> list[Any]: ...
    @property
    def account(self) -> str: ...
    @property
    def budget(self) -> int | None: ...
    @property
    def cache(self) -> CallCache: ...
    @property
    def parallel(self) -> int: ...


@dataclass(frozen=True)
class Call:
    """One request: its key in the cache, and what sends it once and returns a plain result, or raises Failure.

    `prompt` is what it begins with. Calls are sent in the order of their prompts, of which neighbours begin alike: a
    server with a cache of prompts reads that beginning once.
    """

    key: str
    send: Callable[[], Any]
    prompt: tuple[int, ...] = ()


@dataclass(frozen=True)
class CallEstimate:
    """What a result costs: calls that are still to be sent, and the tokens that they hold.

    >>> print(CallEstimate(48, 31234))
    48 calls, about 31,000 tokens
    """

    calls: int
    tokens: int

    def __str__(self) -> str:
        digits = max(0, len(str(self.tokens)) - 2)
        return f"{plural(self.calls, 'call')}, about {round(self.tokens, -digits):,} tokens"


class Caller:
    """Sends the calls of an endpoint; what was answered is kept."""

    __slots__ = ("_cache", "_reached", "endpoint")  # no attributes to look into: a call does not change the model

    def __init__(self, endpoint: Limits) -> None:
        self.endpoint = endpoint
        self._cache = endpoint.cache
        self._reached = False  # whether the server was there
        self._cache.get([])  # refuses a file that cannot be used

    @property
    def sent(self) -> int:
        """How many calls of the budget were sent."""
        return self._cache.sent(self.endpoint.account)

    def answered(self, keys: Sequence[str]) -> dict[str, Any]:
        """The results of some calls that were answered before."""
        return self._cache.get(list(dict.fromkeys(keys)))

    def check(self, needed: int) -> None:
        """Refuse more calls than the budget allows, before any is sent."""
        if needed and self.endpoint.budget is not None and needed > self.endpoint.budget - (sent := self.sent):
            raise OverBudget(needed, self.endpoint.budget - sent, self.endpoint.budget)

    def results(self, calls: Sequence[Call], meter: Meter) -> list[Any]:
        """The results of some calls, of which only those are sent that were not answered before."""
        unique = {call.key: call for call in calls}
        return self._complete(
            [call.key for call in calls], meter, lambda keys: self._in_threads([unique[key] for key in keys], meter)
        )

    def results_of(
        self, function: Callable[[list[Any]], Sequence[Any]], keys: Sequence[str], values: Sequence[Any], meter: Meter
    ) -> list[Any]:
        """The results of a function that takes several values at a time, each with its key; each counts as a call."""
        unique = dict(zip(keys, values, strict=True))

        def in_batches(missing: Sequence[str]) -> Iterator[tuple[str, Any]]:
            account = self.endpoint.account
            while missing:
                meter.check()
                part = missing[:BATCH]
                taken = self._cache.take(part, account, self.endpoint.budget)
                try:
                    if taken:
                        for key, result in zip(taken, function([unique[key] for key in taken]), strict=True):
                            self._cache.put(key, result)
                finally:
                    self._cache.release(taken)
                answered = self._cache.get(part)
                yield from answered.items()
                missing = [*missing[BATCH:], *(key for key in part if key not in answered)]
                if not answered:  # all are on their way, in another thread or process
                    time.sleep(TICK)

        return self._complete(keys, meter, in_batches)

    def _complete(
        self, keys: Sequence[str], meter: Meter, send: Callable[[list[str]], Iterator[tuple[str, Any]]]
    ) -> list[Any]:
        """The results by key, those that were not answered before by `send`."""
        results = self.answered(keys)
        missing = [key for key in dict.fromkeys(keys) if key not in results]
        meter.step(len(keys) - len(missing))
        if missing:
            self.check(len(missing) - len(self._cache.on_their_way(missing)))
        for key, result in send(missing):
            results[key] = result
            meter.step()
        return [results[key] for key in keys]

    def _in_threads(self, calls: Sequence[Call], meter: Meter) -> Iterator[tuple[str, Any]]:
        in_order = sorted(calls, key=attrgetter("prompt"))
        waiting, stop, account = deque(in_order), threading.Event(), self.endpoint.account
        answered: SimpleQueue[tuple[str, Any, Exception | None]] = SimpleQueue()

        def work() -> None:
            while not stop.is_set():
                try:
                    call = waiting.popleft()
                except IndexError:
                    return
                outcome = self._outcome(call, account, stop)
                if outcome is None:  # the call is on its way, in another thread or process
                    waiting.append(call)
                    stop.wait(TICK)
                    continue
                if outcome[1] is not None:
                    stop.set()
                answered.put((call.key, *outcome))

        threads = [threading.Thread(target=work, daemon=True) for _ in calls[: self.endpoint.parallel]]
        try:
            for thread in threads:
                thread.start()
            for number in range(len(calls)):
                key, result, error = _next(answered, meter)
                if isinstance(
                    error, OverBudget
                ):  # attempts that failed have used it up, or other threads and processes
                    raise OverBudget(len(calls) - number, 0, self.endpoint.budget or 0)
                if error is not None:
                    raise error
                yield key, result
        finally:
            stop.set()
            end = time.monotonic() + GRACE
            for thread in threads:  # what was paid for is kept, later too if the server is slow
                if thread.ident is not None:
                    thread.join(max(0.0, end - time.monotonic()))

    def _outcome(self, call: Call, account: str, stop: threading.Event) -> tuple[Any, Exception | None] | None:
        """The result of a call, or its error; None if another thread or process has sent it."""
        try:
            if not self._cache.take([call.key], account, self.endpoint.budget):
                answered = self._cache.get([call.key])
                return (answered[call.key], None) if answered else None
            try:
                return self._send(call, account, stop)
            finally:
                self._cache.release([call.key])
        except Exception as error:  # it belongs to the thread that waits for the result
            return None, error

    def _send(self, call: Call, account: str, stop: threading.Event) -> tuple[Any, Exception | None]:
        """The result of a call that was counted, or the error after the last attempt at it."""
        address = self.endpoint.address
        for attempt in range(1, ATTEMPTS + 1):
            try:
                result = call.send()
                self._reached = True
                self._cache.put(call.key, result)
                return result, None
            except Failure as error:
                failure = error
                self._reached |= not error.absent
            wait = FIRST * 2 ** (attempt - 1) * (1 + random.random()) if failure.wait is None else failure.wait
            again = failure.again and (self._reached or not failure.absent)
            if not again or attempt == ATTEMPTS or wait > LONGEST or stop.wait(wait):
                break
            self._cache.count(account, self.endpoint.budget)
        later = f" It asks to wait {wait:.0f} seconds." if wait > LONGEST else ""
        tried = f" ({attempt} attempts)" if attempt > 1 else ""
        return None, ServerError(f"The server {address} {failure}{tried}.{later}", status=failure.status)


def _next(answered: "SimpleQueue[tuple[str, Any, Exception | None]]", meter: Meter) -> Any:
    """The next answer; the caller may cancel while none is there."""
    while True:
        meter.check()
        try:
            return answered.get(timeout=TICK)
        except Empty:
            continue
