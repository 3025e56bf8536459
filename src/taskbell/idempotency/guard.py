"""THE GUARD: around a piece of work, so that the work of one key completes once.

    guard = Guard(SqliteStore("claims.db"))

    outcome = guard.call(key, work)      # values: Ran, Failed, Replayed, InProgress, Mismatched or Lost
    with guard.hold(key) as run: ...     # the same around a block: NotRun and LostClaimError are raised
    @guard.idempotent(key=function)      # the same around a function, which returns what it returned the first time
    run = guard.claim(key)               # by hand: end it with run.finish() or run.release()

`AsyncGuard` has the same verbs for event loops, over an asynchronous store or, in threads, a blocking one.

What each step leaves behind if the process dies there:

    claim ─▶ work ─▶ finish ─▶ answer
      │       │        │         └ completed: the next delivery gets the answer
      │       │        └ the effect is there and the key is not completed: the work runs again
      │       └ part of the effect may be there: the work runs again
      └ nothing was done: the work runs

"Again" is as soon as the lease has ended, with `run.took_over` set. The window before finish is the one that stays.
`run.finish_in` closes it where effect and claims share a database, and `run.headers` hands it down to a service where
they do.

Work that fails gives its claim back before the error goes out, so that the next delivery need not wait for the lease.
If the store cannot be reached just then, the lease ends by itself.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from taskbell.core import claim
from taskbell.core.claim import Answer, Lost
from taskbell.idempotency.errors import LostClaimError, NotRun
from taskbell.idempotency.heartbeat import AsyncClock, AsyncSystemClock, Clock, SystemClock
from taskbell.idempotency.hold import Hold
from taskbell.idempotency.key import Key, Kind, own_key
from taskbell.idempotency.outcome import Failed, Outcome, Ran, Refusal
from taskbell.idempotency.policy import Policy, Settings, as_key, refused
from taskbell.idempotency.run import CURRENT, AsyncRun, Run, again, again_async
from taskbell.idempotency.store import AsyncClaimStore, ClaimStore, as_async, inside
from taskbell.idempotency.value import from_json, to_json

log = logging.getLogger("taskbell.idempotency")
P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", ClaimStore, AsyncClaimStore)


def new_attempt_id() -> str:
    """As the guide's sample makes them."""
    return uuid.uuid4().hex


def own_answer(value: object) -> Answer | None:
    """What `call` keeps: an Answer that the work returned, and nothing of other values."""
    return value if isinstance(value, Answer) else None


class _Shared(Generic[S]):
    """What both guards know."""

    def __init__(self, store: S, policy: Policy, *, in_transaction: bool) -> None:
        self.store: S = store
        self.policy = policy
        self._in_transaction = in_transaction
        self._warned: set[Kind] = set()

    def _warn(self, kind: Kind) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            for doubt in self.policy.doubts(kind):
                log.warning("%s", doubt)

    def _final(self, error: BaseException) -> Answer | None:
        """The answer to complete with. In the caller's transaction there is none: its rollback takes everything
        back.
        """
        return None if self._in_transaction else self.policy.permanent_answer(error)

    def _may_release(self, run: Hold) -> bool:
        """Not what may be finished; and not in a transaction that is about to be rolled back."""
        return not run.may_be_finished and not self._in_transaction


class Guard(_Shared[ClaimStore]):
    """A guard for code that blocks. One for all threads; `Settings` are explained at `Policy`."""

    def __init__(self, store: ClaimStore, *, clock: Clock | None = None, **settings: Unpack[Settings]) -> None:
        """Guard with this store. `clock` is for tests."""
        super().__init__(store, Policy(**settings), in_transaction=False)
        self._clock = SystemClock() if clock is None else clock

    def claim(self, key: Key | str, *, fingerprint: str | None = None) -> Run | Refusal:
        """Ask for the key. A run must be ended by `finish` or `release`; its lease is kept until then."""
        key = as_key(key)
        self._warn(key.kind)
        bid = self.policy.bid(key, new_attempt_id(), fingerprint)
        asked = self._clock.monotonic()
        decision = again(lambda: self.store.claim(bid), 1 if self._in_transaction else 2)
        if not isinstance(decision, claim.Run):
            return refused(decision)
        return Run(self.store, self.policy, self._clock, key=key, granted=decision, asked_time=asked)

    def call(
        self,
        key: Key | str,
        work: Callable[[Run], T],
        *,
        fingerprint: str | None = None,
        encode: Callable[[T], Answer | None] = own_answer,
    ) -> Outcome[T]:
        """Run the work unless another attempt has done it or is at it, and settle the key by what comes out.

        An Answer that the work returns completes or releases, as `Policy.completes` says, and is kept. Errors that are
        not permanent are raised, after the claim was released. `encode` makes an Answer of other values.
        """
        run = self.claim(key, fingerprint=fingerprint)
        if not isinstance(run, Run):
            return run
        try:
            with self._held(run):
                value = work(run)
                answer = encode(value)
                if answer is not None and not self.policy.completes(answer):
                    self._release(run)
                    return Failed(answer, is_permanent=False)
                if not run.is_settled:
                    run.finish(answer)
                return Ran(value, answer)
        except LostClaimError:
            if run.is_held:
                raise  # Of another run, inside of the work.
            return Lost()
        except Exception as error:
            final = self._final(error)
            if final is None:
                raise
            return Failed(final, is_permanent=True, error=error)

    @contextmanager
    def hold(self, key: Key | str, *, fingerprint: str | None = None) -> Iterator[Run]:
        """Hold the key while a block runs. NotRun: it does not begin. LostClaimError: it must not stand."""
        run = self.claim(key, fingerprint=fingerprint)
        if not isinstance(run, Run):
            raise NotRun(run)
        with self._held(run):
            yield run

    def idempotent(
        self, key: Callable[..., str], *, namespace: str | None = None
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Make a function run once for each `key(*args, **kwargs)`; later calls return what the first returned.

        The value is kept as JSON. `namespace` sets functions apart; without one it is the function's name, so that
        renaming it begins anew. Raises NotRun while another attempt is at it, and when a value could not be kept.
        """

        def decorate(work: Callable[P, T]) -> Callable[P, T]:
            name = _name(work) if namespace is None else namespace

            @functools.wraps(work)
            def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
                named = own_key(key(*args, **kwargs), name)
                return from_json(self.call(named, lambda _: work(*args, **kwargs), encode=to_json))

            return guarded

        return decorate

    def within(self, connection: Any) -> Guard:
        """The same guard inside the caller's transaction: claim, effect and completion commit together, or none does.

        There is no lease to renew and nothing to release. Every error is raised, for the caller to roll back;
        duplicates wait at the database until this transaction has ended.
        """
        guard = Guard(inside(self.store, connection), clock=self._clock)
        guard.policy = self.policy.without_heartbeat()
        guard._in_transaction = True
        return guard

    @contextmanager
    def _held(self, run: Run) -> Iterator[Run]:
        token = CURRENT.set(run)
        try:
            yield run
            if not run.is_settled:
                run.finish()
        except BaseException as error:
            self._settle_failed(run, error)
            raise
        finally:
            CURRENT.reset(token)

    def _settle_failed(self, run: Run, error: BaseException) -> None:
        final = self._final(error)
        if final is not None:
            run.finish(final)
        elif self._may_release(run):
            self._release(run)

    def _release(self, run: Run) -> None:
        """What the work answered or raised goes out, whether the store can be reached or not."""
        try:
            run.release()
        except Exception:
            log.exception("%s: could not be released; its lease will end", run.key.source)


class AsyncGuard(_Shared[AsyncClaimStore]):
    """A guard for event loops. As `Guard`, verb by verb."""

    def __init__(
        self,
        store: ClaimStore | AsyncClaimStore,
        *,
        clock: AsyncClock | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Guard with this store; a blocking one is called in threads. `clock` is for tests."""
        super().__init__(as_async(store), Policy(**settings), in_transaction=False)
        self._clock = AsyncSystemClock() if clock is None else clock

    async def claim(self, key: Key | str, *, fingerprint: str | None = None) -> AsyncRun | Refusal:
        """As `Guard.claim`. Cancelled meanwhile: if the store had granted the claim, it ends with its lease."""
        key = as_key(key)
        self._warn(key.kind)
        bid = self.policy.bid(key, new_attempt_id(), fingerprint)
        asked = self._clock.monotonic()
        decision = await again_async(lambda: self.store.claim(bid), 1 if self._in_transaction else 2)
        if not isinstance(decision, claim.Run):
            return refused(decision)
        return AsyncRun(self.store, self.policy, self._clock, key=key, granted=decision, asked_time=asked)

    async def call(
        self,
        key: Key | str,
        work: Callable[[AsyncRun], Awaitable[T]],
        *,
        fingerprint: str | None = None,
        encode: Callable[[T], Answer | None] = own_answer,
    ) -> Outcome[T]:
        """As `Guard.call`. Cancelled: the claim is released, and the cancellation goes on."""
        run = await self.claim(key, fingerprint=fingerprint)
        if not isinstance(run, AsyncRun):
            return run
        try:
            async with self._held(run):
                value = await work(run)
                answer = encode(value)
                if answer is not None and not self.policy.completes(answer):
                    await self._release(run)
                    return Failed(answer, is_permanent=False)
                if not run.is_settled:
                    await run.finish(answer)
                return Ran(value, answer)
        except LostClaimError:
            if run.is_held:
                raise
            return Lost()
        except Exception as error:
            final = self._final(error)
            if final is None:
                raise
            return Failed(final, is_permanent=True, error=error)

    @asynccontextmanager
    async def hold(self, key: Key | str, *, fingerprint: str | None = None) -> AsyncIterator[AsyncRun]:
        """As `Guard.hold`."""
        run = await self.claim(key, fingerprint=fingerprint)
        if not isinstance(run, AsyncRun):
            raise NotRun(run)
        async with self._held(run):
            yield run

    def idempotent(
        self, key: Callable[..., str], *, namespace: str | None = None
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """As `Guard.idempotent`, of a coroutine function."""

        def decorate(work: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            name = _name(work) if namespace is None else namespace

            @functools.wraps(work)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
                named = own_key(key(*args, **kwargs), name)
                return from_json(await self.call(named, lambda _: work(*args, **kwargs), encode=to_json))

            return guarded

        return decorate

    def within(self, connection: Any) -> AsyncGuard:
        """As `Guard.within`."""
        guard = AsyncGuard(inside(self.store, connection), clock=self._clock)
        guard.policy = self.policy.without_heartbeat()
        guard._in_transaction = True
        return guard

    @asynccontextmanager
    async def _held(self, run: AsyncRun) -> AsyncIterator[AsyncRun]:
        token = CURRENT.set(run)
        try:
            yield run
            if not run.is_settled:
                await run.finish()
        except BaseException as error:
            await self._settle_failed(run, error)
            raise
        finally:
            with suppress(ValueError):  # A generator that is closed from another context.
                CURRENT.reset(token)

    async def _settle_failed(self, run: AsyncRun, error: BaseException) -> None:
        final = self._final(error)
        if final is not None:
            await run.finish(final)
        elif self._may_release(run):
            await self._release(run)

    async def _release(self, run: AsyncRun) -> None:
        try:
            # A second cancellation must not leave the claim to its lease.
            await asyncio.shield(run.release())
        except Exception:
            log.exception("%s: could not be released; its lease will end", run.key.source)


def _name(work: Callable[..., object]) -> str:
    return f"{work.__module__}.{getattr(work, '__qualname__', type(work).__qualname__)}"
