"""`Ranks`: real ranks on this machine, from their start to the last process gone."""

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from shardviz.core.errors import RanksError, RequestError
from shardviz.core.recording import Recording
from shardviz.core.recording_lines import merge, read_lines
from shardviz.core.spec import Spec, parse
from shardviz.core.trace import Trace
from shardviz.ranks import calls, faults
from shardviz.ranks.attached import AttachedRanks, bind, survey
from shardviz.ranks.binding import Binding, decide, installed_torch, loaded_nccl, usable_gpus
from shardviz.ranks.calling import Calling
from shardviz.ranks.fleet import Fleet
from shardviz.ranks.running import redistribute, run

MOST_VALUES = 64


class Ranks:
    """Ranks on this machine: ipyparallel engines joined to one process group.

    Use it as a context manager, or call `start` and `stop`. Nothing of it outlives this process.

    Args:
        n: number of ranks.
        timeout: seconds that a call may take, unless it gives its own.
        backend: "nccl", "gloo", or "auto": NCCL where each rank gets a GPU of its own, gloo on the CPU otherwise.
        devices: one device per rank ("cpu", "cuda:0", …) instead of the choice made here.
        launcher: "local", by which ranks are forked on this machine; those of other launchers come in by `attach`.
        share_gpus: put several NCCL ranks on one card where there are fewer cards than ranks; needs NCCL 2.30 or later.
        progress: called through the stages of a start with a sentence and the fraction done, 0 to 1.

    Attributes:
        n: number of ranks.
        backend: "gloo" or "nccl".
        devices: one per rank, "cpu" or the card as this process counts them ("cuda:2"); inside its rank that card is cuda:0.
        torch: version of the torch that the ranks run.
        notice: why the ranks use gloo although there are GPUs; None when there is nothing to explain.

    Raises:
        RequestError: what is asked for cannot be had here; nothing was started.

    Example:
        >>> with Ranks(2) as ranks:  # real processes; ceil(3 / 2) = 2: 2 + 1
        ...     [buffer.shape for buffer in ranks.run("[3] on tp=2: S(0)").held]
        [(2,), (1,)]
    """

    _make: Callable[[], Calling]
    _interrupted: threading.Event

    def __init__(
        self,
        n: int,
        *,
        timeout: float = 20.0,
        backend: str = "auto",
        devices: Sequence[str] | None = None,
        launcher: str = "local",
        share_gpus: bool = False,
        progress: Callable[[str, float], None] | None = None,
    ) -> None:
        if launcher != "local":
            raise RequestError(
                f"launcher={launcher!r}: these ranks are forked on this machine (launcher='local'). Others come in through "
                f"ipyparallel: start ipp.Cluster(engines={launcher!r}, n={n}), and attach with Ranks.attach(its client)."
            )
        build = installed_torch()
        nccl = loaded_nccl() if share_gpus else None
        binding = decide(n, usable_gpus(), backend, devices, share_gpus=share_gpus, nccl=nccl, torch=build)
        self._prepare(binding, build.version, timeout)
        self._make = partial(Fleet, n, binding, progress or _silent, self._interrupted)

    @classmethod
    def attach(
        cls,
        client: Any,
        *,
        timeout: float = 20.0,
        backend: str = "auto",
        progress: Callable[[str, float], None] | None = None,
    ) -> Self:
        """Make ranks of the engines of a running ipyparallel cluster, whoever launched it, in the order of their ids.

        The engines are never ended, by `stop` neither: they only leave the group. Where that leaves something undone (a rank
        that hangs outside a collective, an engine that died), the error says so.

        Args:
            client: an `ipyparallel.Client` of the cluster.
            timeout: seconds that a call may take, unless it gives its own.
            backend: as for new ranks; engines that see the same cards divide them among themselves.
            progress: called through the stages with a sentence and the fraction done, 0 to 1.

        Raises:
            RequestError: an engine cannot be a rank.
            RanksError: the engines could not be joined to one group.
        """
        facts = survey(client)
        binding = bind(list(facts.values()), backend)
        ranks = cls.__new__(cls)
        ranks._prepare(binding, next(iter(facts.values())).torch, timeout)
        ranks._make = partial(AttachedRanks, client, facts, binding, timeout, progress or _silent, ranks._interrupted)
        return ranks.start()

    def _prepare(self, binding: Binding, torch: str, timeout: float) -> None:
        self.n = len(binding.devices)
        self.timeout = timeout
        self.backend = binding.backend
        self.devices = binding.devices
        self.notice = binding.notice
        self.torch = torch
        self._interrupted = threading.Event()
        # One start, stop or call at a time, from whichever thread.
        self._lock = threading.Lock()
        self._stopping = False
        self._fleet: Calling | None = None
        self._close: weakref.finalize[..., Ranks] | None = None

    @property
    def running(self) -> bool:
        """Whether the ranks have been started and not stopped."""
        return self._fleet is not None

    def start(self) -> Self:
        """Start the ranks, unless they are running.

        Raises:
            RanksError: they could not be started; nothing is left behind.
        """
        with self._lock:
            self._interrupted.clear()
            if self._fleet is None:
                self._start()
        return self

    def _start(self) -> None:
        try:
            fleet = self._make()
        except OSError as error:
            raise RanksError(f"The ranks could not be started: {error}") from error
        # Also at the exit of the interpreter, and when the last reference to these ranks is gone.
        self._fleet, self._close = fleet, weakref.finalize(self, fleet.close)
        try:
            fleet.start()
        except BaseException as error:
            self._stop()
            if isinstance(error, OSError):  # a TimeoutError is one too
                raise RanksError(f"The ranks could not be started: {error or type(error).__name__}") from error
            raise

    def stop(self) -> None:
        """End the ranks, whatever they are doing; a call that runs in another thread raises."""
        self._stopping = True
        self.interrupt()
        with self._lock:
            self._stop()
            self._stopping = False

    def _stop(self) -> None:
        if self._close is not None:
            self._close()
        self._fleet = self._close = None

    def restart(self) -> Self:
        """Replace every process by a new one."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"<{self.n} {self.backend} ranks, torch {self.torch}, {state}>"

    def apply(self, function: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Call `function(*args, **kwargs)` in every rank's process at the same time, inside the joined group.

        Args:
            function: anything importable, or defined in a notebook cell or script.
            args: plain data, the same for every rank; `torch.distributed.get_rank()` tells the ranks apart. If there is a
                `Spec` among them, a failure tells its rank's coordinate.
            timeout: seconds that this call may take.
            kwargs: like `args`.

        Returns:
            The results in rank order. DTensors in them come back as facts that draw themselves, without their elements: where
            all ranks return theirs at the same place, each knows the local shapes of all.

        Raises:
            RankFailure: a rank raised, died or did not finish in time; the next call runs on new ranks.
            RanksError: the ranks are not started, or were lost, or the call was interrupted.
        """
        call = calls.pack(function, args, kwargs)
        mesh = next((argument.mesh for argument in args if isinstance(argument, Spec)), None)
        with self._lock:
            self._interrupted.clear()
            fleet = self._healthy_fleet()
            try:
                return fleet.call([call] * self.n, self.timeout if timeout is None else timeout, mesh)
            except KeyboardInterrupt as interrupt:
                interrupt.add_note("\n".join(faults.describe(fleet.doing())))
                raise
            finally:
                if fleet.dirty and not fleet.broken():
                    fleet.discard()

    def _healthy_fleet(self) -> Calling:
        """The fleet, with whatever was lost replaced."""
        if self._fleet is None or self._stopping:
            raise RanksError("The ranks are not running: call start(), or use them in a `with` block.")
        if self._fleet.broken():
            self._stop()
            self._start()
        elif self._fleet.dirty or self._fleet.lost_a_rank():
            self._fleet.renew()
        return self._fleet

    def run(self, spec: Spec | str) -> Trace:
        """Make the tensor of a spec on these ranks, and record what they hold, what torch reports, and how it comes together.

        Args:
            spec: the question, or its notation. A mesh of fewer ranks than these uses a part of them.

        Returns:
            The recorded story of shardviz's own reconstruction. It also carries what torch reports of every shard
            (`reported`) and torch's own `full_tensor()` as a story (`torch`).

        Raises:
            RequestError: the mesh has ranks that do not run.
            RankFailure: a rank raised, died or did not finish in time.
        """
        return run(self, parse(spec) if isinstance(spec, str) else spec)

    def redistribute(self, spec: Spec | str, placements: str | Sequence[Any]) -> Trace:
        """Make the tensor of a spec on these ranks, and record how torch's own planner takes it to other placements.

        `shardviz.redistribute` predicts the same; the two need not take the same steps.

        Args:
            spec: where the tensor starts, or its notation.
            placements: where it is to go, as a `Spec` takes them.

        Raises:
            RequestError: the mesh has ranks that do not run.
            RankFailure: torch refused, or a rank died or did not finish in time.
        """
        source = parse(spec) if isinstance(spec, str) else spec
        return redistribute(self, source, Spec(source.shape, source.mesh, placements))

    def record(self, function: Callable[..., Any], *args: Any, most_values: int = MOST_VALUES, **kwargs: Any) -> Recording:
        """Call `function(*args, **kwargs)` in every rank, as `apply` does, and record its collectives.

        Args:
            function: anything importable, or defined in a notebook cell or script.
            args: plain data, the same for every rank.
            most_values: the values of a tensor are recorded if it has at most so many elements.
            kwargs: like `args`.

        Returns:
            The collectives of all ranks side by side.

        Raises:
            RankFailure: a rank raised, died or did not finish in time.
        """
        records = self.apply(calls.recorded, function, args, kwargs, most_values)
        return merge([read_lines(record) for record in records])

    def interrupt(self) -> None:
        """Make a call that runs in another thread raise at once; its ranks are replaced at the next use."""
        self._interrupted.set()
        if self._fleet is not None:
            self._fleet.wake()


def _silent(_stage: str, _fraction: float) -> None:
    """Show no progress."""
