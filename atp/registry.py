"""Names -> adapters, and what a pairing of them needs before it can run.

Adapters are found through the entry points `atp.benchmarks` (a `Benchmark` class) and
`atp.harnesses` (a `HarnessCard`), the built-in ones through the same door. One that cannot be
loaded is an error that names it, never one name fewer in a list.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, TypeVar

from atp.engine import datasets, environments
from atp.engine.own_agents import SDK_OPTION, is_own_agent, own_agent_card
from atp.engine.user_pairing import pair_user
from atp.models.providers import dialects_of, provider_endpoint
from atp.models.ref import ModelRef
from atp.protocol.benchmark import Benchmark
from atp.protocol.cards import BenchmarkCard, HarnessCard
from atp.protocol.errors import InvalidInput, NotReady, PluginError, UnknownName
from atp.protocol.model import Dialect
from atp.protocol.names import nearest
from atp.protocol.worker_benchmark import WorkerBenchmark

BENCHMARKS = "atp.benchmarks"
HARNESSES = "atp.harnesses"
DIALECT_OPTION = "dialect"
"""Of a harness that speaks several: which of them it shall speak."""
FILE = "file:"
"""`-b file:TASKS.jsonl`."""

Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """Where a harness's worker would run."""

    python: Path | None
    """Its interpreter; None while the environment is missing."""
    command: str | None
    """What to type to make it; None when nothing is missing."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A benchmark, a harness and a model, and all that is needed to run them together."""

    benchmark_name: str
    """As asked for; `file:PATH` stays so."""
    benchmark: Benchmark
    harness: HarnessCard
    model: ModelRef
    dialect: Dialect | None
    """The one that `-o harness.dialect` names, else the first of the harness's dialects in which the
    model can be reached; None when none fits."""
    environment: WorkerEnvironment
    data: Path | None
    """The folder for `Benchmark.load`; None when the data ship with the adapter or are missing."""
    user_model: ModelRef | None
    """The model that plays the user; None where the benchmark's own user stays."""
    problems: tuple[str, ...]
    """Why it cannot run, each with the way out."""

    @property
    def ready(self) -> bool:
        """Whether nothing stands in the way of a run."""
        return not self.problems

    @property
    def simulated(self) -> bool:
        """Whether a script speaks for the agent or for its user."""
        return self.model.simulated or (self.user_model is not None and self.user_model.simulated)

    @property
    def runner(self) -> str:
        """`module:attribute` of the runner's factory."""
        return self.harness.runner

    @property
    def instrument(self) -> str:
        """`module:attribute` of the instrument's factory."""
        return self.harness.instrument

    def as_json(self) -> dict[str, Any]:
        """What `atp resolve --json` prints."""
        card = self.benchmark.card
        return {
            "benchmark": self.benchmark_name,
            "harness": self.harness.name,
            "model": str(self.model),
            "user_model": str(self.user_model) if self.user_model else None,
            "simulated": self.simulated,
            "dialect": self.dialect,
            "runner": self.runner,
            "instrument": self.instrument,
            "environment": str(self.environment.python) if self.environment.python else None,
            "dataset": {
                "id": card.dataset,
                "config": card.config,
                "split": card.split,
                "revision": card.revision,
            },
            "data": str(self.data) if self.data else None,
            "ready": self.ready,
            "problems": list(self.problems),
        }


def benchmarks() -> Mapping[str, BenchmarkCard]:
    """The cards of all benchmarks, by name.

    Raises:
        PluginError: Names every entry point that cannot be loaded, is doubled or is not a benchmark.
    """
    return {name: found.card for name, found in _all(BENCHMARKS, _benchmark_class).items()}


def harnesses() -> Mapping[str, HarnessCard]:
    """The cards of all harnesses, by name.

    Raises:
        PluginError: Names every entry point that cannot be loaded, is doubled or is not a harness card.
    """
    return _all(HARNESSES, _harness_card)


def benchmark(name: str, options: Mapping[str, Any] | None = None) -> Benchmark:
    """Make a benchmark.

    Args:
        name: An entry point's name, or `file:TASKS.jsonl`.
        options: `-o benchmark.KEY=V`.

    Raises:
        UnknownName: Nothing is called so; says the nearest names.
        PluginError: It cannot be loaded or is not a benchmark.
        InvalidInput: An option it does not know, or a file of tasks that breaks the rules.
    """
    if name.startswith(FILE):
        from adapters.benchmarks.file import FileBenchmark

        return FileBenchmark(Path(name.removeprefix(FILE)), options)
    made = _one(BENCHMARKS, name, _benchmark_class)(options)
    if isinstance(made, WorkerBenchmark):
        # Here, since workers are slow to import and a list of names needs none.
        from atp.engine.benchmark_worker import BenchmarkWorker

        made.port = BenchmarkWorker(made.card, made.options)
    return made


def harness(name: str, options: Mapping[str, Any] | None = None) -> HarnessCard:
    """The card of a harness.

    Args:
        name: An entry point's name, or `module:factory` of a user's own agent.
        options: `-o harness.KEY=V`; for an agent of one's own `sdk` is looked at.

    Raises:
        UnknownName: Nothing is called so; says the nearest names.
        PluginError: It cannot be loaded or is not a harness card.
        InvalidInput: See `own_agent_card`.
    """
    if is_own_agent(name):
        sdk = (options or {}).get(SDK_OPTION)
        return own_agent_card(name, None if sdk is None else str(sdk), harnesses())
    return _one(HARNESSES, name, _harness_card)


def resolve(
    benchmark_name: str,
    harness_name: str,
    model_name: str,
    *,
    benchmark_options: Mapping[str, Any] | None = None,
    harness_options: Mapping[str, Any] | None = None,
    python: Path | None = None,
    in_process: bool = False,
    base_url: str | None = None,
    user_model: str | None = None,
    user_base_url: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Pairing:
    """Put a benchmark, a harness and a model together without starting or fetching anything.

    Args:
        benchmark_name: See `benchmark`.
        harness_name: See `harness`.
        model_name: See `ModelRef.parse`.
        benchmark_options: See `benchmark`.
        harness_options: `-o harness.KEY=V`; each key has to stand on the harness's card.
        python: `--python PATH`, in place of the harness's own environment.
        in_process: `--workers 0`: the harness runs on the engine's interpreter and needs its extra there.
        base_url: `--base-url`.
        user_model: `--user-model`.
        user_base_url: `--user-base-url`; None is `base_url`.
        environ: Where keys and base URLs are looked up.

    Returns:
        The pairing; what is merely missing stands in its `problems`.

    Raises:
        UnknownName: A name that nothing answers to.
        InvalidInput: An option, model, path or URL that breaks the rules.
        PluginError: An adapter that cannot be loaded.
    """
    return pair(
        benchmark_name,
        benchmark(benchmark_name, benchmark_options),
        harness(harness_name, harness_options),
        ModelRef.parse(model_name),
        harness_options=harness_options,
        python=python,
        in_process=in_process,
        base_url=base_url,
        user_model=user_model,
        user_base_url=user_base_url,
        environ=environ,
    )


def pair(
    benchmark_name: str,
    chosen: Benchmark,
    card: HarnessCard,
    model: ModelRef,
    *,
    harness_options: Mapping[str, Any] | None = None,
    python: Path | None = None,
    in_process: bool = False,
    base_url: str | None = None,
    user_model: str | None = None,
    user_base_url: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Pairing:
    """Put adapters together that are at hand, found by a name or not; otherwise as `resolve`."""
    _check_options(card, harness_options or {})
    problems: list[str] = []

    def attempt(step: Callable[[], Loaded]) -> Loaded | None:
        try:
            return step()
        except NotReady as error:
            problems.append(error.message)
            return None

    environment = _environment(card, python, in_process, problems)
    data = chosen.data = attempt(lambda: datasets.folder_for(chosen.card))
    attempt(lambda: environments.python_for(chosen.card))
    spoken = _spoken(card, harness_options or {})
    dialect = next((dialect for dialect in spoken if dialect in dialects_of(model)), None)
    if dialect is None:
        problems.append(
            f"harness {card.name!r} speaks {', '.join(spoken)}; model {str(model)!r} is reached by "
            f"{', '.join(dialects_of(model))}: choose a harness or a model that shares a dialect"
        )
    elif not model.simulated:
        chosen_dialect = dialect
        attempt(lambda: provider_endpoint(model, chosen_dialect, base_url, environ))
    user = pair_user(chosen.card, model, user_model, user_base_url, base_url, environ)
    problems.extend(user.problems)
    chosen.user_data = user.data
    for role, factory in (("runner", card.runner), ("instrument", card.instrument)):
        if not _module_exists(factory):
            problems.append(f"harness {card.name!r}: its {role} {factory!r} names a module that is not there")
    return Pairing(
        benchmark_name, chosen, card, model, dialect, environment, data, user.model, tuple(problems)
    )


def _environment(
    card: HarnessCard, python: Path | None, in_process: bool, problems: list[str]
) -> WorkerEnvironment:
    if in_process:
        return _engine_environment(card, problems)
    try:
        return WorkerEnvironment(environments.python_for(card, python), None)
    except NotReady as error:
        problems.append(error.message)
        return WorkerEnvironment(None, environments.command_for(card))


def _engine_environment(card: HarnessCard, problems: list[str]) -> WorkerEnvironment:
    own = environments.engine_python()
    if card.requirements is None:
        return WorkerEnvironment(own, None)
    try:
        distribution(card.package)
    except PackageNotFoundError:
        wanted = f"{card.distribution}[{card.extra}]" if card.extra else card.package
        command = f"pip install '{wanted}'"
        problems.append(f"--workers 0 needs {card.package!r} beside the engine; type: {command}")
        return WorkerEnvironment(None, command)
    return WorkerEnvironment(own, None)


def _check_options(card: HarnessCard, options: Mapping[str, Any]) -> None:
    for key in options:
        if key not in card.options:
            known = ", ".join(sorted(card.options)) or "none"
            raise InvalidInput(
                f"harness {card.name!r} has no option {key!r}{nearest(key, card.options)}; it has: {known}"
            )


def _spoken(card: HarnessCard, options: Mapping[str, Any]) -> Sequence[Dialect]:
    if DIALECT_OPTION not in options:
        return card.dialects
    asked = str(options[DIALECT_OPTION])
    if asked not in list(card.dialects):
        raise InvalidInput(
            f"harness.{DIALECT_OPTION}={asked}: harness {card.name!r} speaks {', '.join(card.dialects)}"
        )
    return (Dialect(asked),)


def _module_exists(factory: str) -> bool:
    module, _, attribute = factory.partition(":")
    try:
        return bool(attribute) and importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # a parent package is missing, or the name is empty
        return False


def _one(group: str, name: str, check: Callable[[EntryPoint, Any], Loaded]) -> Loaded:
    points = entry_points(group=group)
    named = [point for point in points if point.name == name]
    if not named:
        known = sorted(points.names)
        kind = group.removeprefix("atp.")
        raise UnknownName(
            f"no {_singular(group)} is called {name!r}{nearest(name, known)}; `atp list {kind}` shows all"
        )
    return _load(named, check)


def _all(group: str, check: Callable[[EntryPoint, Any], Loaded]) -> dict[str, Loaded]:
    points: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        points.setdefault(point.name, []).append(point)
    found: dict[str, Loaded] = {}
    broken: list[str] = []
    for name in sorted(points):
        try:
            found[name] = _load(points[name], check)
        except PluginError as error:
            broken.append(error.message)
    if broken:
        raise PluginError("\n".join(broken))
    return found


def _load(points: list[EntryPoint], check: Callable[[EntryPoint, Any], Loaded]) -> Loaded:
    point = points[0]
    if len(points) > 1:
        sources = " and ".join(f"{_origin(each)} ({each.value})" for each in points)
        raise PluginError(
            f"the {_singular(point.group)} {point.name!r} is there more than once: {sources}; "
            "uninstall all but one"
        )
    try:
        value = point.load()
    except Exception as error:  # whatever the plugin's module raises as it is imported
        raise PluginError(f"{_described(point)} cannot be loaded: {type(error).__name__}: {error}") from error
    return check(point, value)


def _benchmark_class(point: EntryPoint, value: Any) -> type[Benchmark]:
    if not (isinstance(value, type) and issubclass(value, Benchmark)):
        raise PluginError(f"{_described(point)} is not a Benchmark class but {value!r}")
    card = _check_card(point, getattr(value, "card", None), BenchmarkCard)
    if (card.worker is not None) != issubclass(value, WorkerBenchmark):
        raise PluginError(
            f"{_described(point)}: a card names a worker where the class is a WorkerBenchmark, and only there"
        )
    if card.worker is not None and card.user_model:
        raise PluginError(f"{_described(point)}: no model can play a user who lives in a benchmark's worker")
    return value


def _harness_card(point: EntryPoint, value: Any) -> HarnessCard:
    return _check_card(point, value, HarnessCard)


CardT = TypeVar("CardT", BenchmarkCard, HarnessCard)


def _check_card(point: EntryPoint, card: Any, kind: type[CardT]) -> CardT:
    if not isinstance(card, kind):
        raise PluginError(f"{_described(point)} has no {kind.__name__} but {card!r}")
    if card.name != point.name:
        raise PluginError(
            f"{_described(point)} calls itself {card.name!r} on its card; the names must be equal"
        )
    return card


def _described(point: EntryPoint) -> str:
    return f"the {_singular(point.group)} {point.name!r} ({point.value}) of {_origin(point)}"


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def _singular(group: str) -> str:
    return "benchmark" if group == BENCHMARKS else "harness"
