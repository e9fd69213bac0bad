"""`-H module:factory`: a user's own agent, found and described without importing a line of it.

The user's module imports an SDK, which the engine's environment may not have; so the engine reads its
source. Which SDK the agent is built with is said by the return type that the factory declares.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from atp.protocol.cards import FactorySource, HarnessCard
from atp.protocol.errors import InvalidInput, PluginError, UnknownName
from atp.protocol.names import nearest

SDK_OPTION = "sdk"
"""`-o harness.sdk=NAME`, for a factory that declares no return type."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_own_agent(name: str) -> bool:
    """Whether `-H` names a factory instead of a harness."""
    return ":" in name


def own_agent_card(
    path: str, sdk: str | None, known: Mapping[str, HarnessCard], folder: Path | None = None
) -> HarnessCard:
    """The card of a user's own agent: that of the harness which serves its SDK, under the agent's name.

    Args:
        path: `module:factory`.
        sdk: Name of that harness; None takes it from the declared return type.
        known: The cards of all harnesses.
        folder: Where the module may be, besides the Python path; the working directory by default.

    Raises:
        InvalidInput: The path is malformed, the function takes other than one argument, or its SDK is
            unknown.
        UnknownName: There is no such module, or nothing of that name in it.
        PluginError: The module cannot be read as Python source.
    """
    module, _, attribute = path.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise InvalidInput(f"harness {path!r} is not of the form module:factory")
    folder = (folder or Path.cwd()).resolve()
    file = _source_file(path, module, folder)
    content = file.read_bytes()
    try:
        tree = ast.parse(content, file)
    except (SyntaxError, ValueError) as error:
        raise PluginError(f"harness {path!r}: {file} is no Python source: {error}") from error
    function = _function(path, attribute, tree, file)
    serving = {name: card for name, card in known.items() if card.agent_packages}
    chosen = serving[_serving(path, sdk, function, tree, serving)]
    source = FactorySource(
        path=path,
        folder=str(folder),
        file=str(file),
        sha256=hashlib.sha256(content).hexdigest(),
        sdk=chosen.name,
    )
    return chosen.model_copy(
        update={
            "name": path,
            "title": f"{attribute} of {module}, an agent of the user's own built with {chosen.title}",
            "factory": source,
            "soft_turn_limit": f"that of the agent itself; of one run as it is: {chosen.soft_turn_limit}",
            "options": {**chosen.options, SDK_OPTION: "the harness that serves the agent's SDK"},
            "notes": (
                f"The agent is the user's own, made by {path}; {chosen.name} serves it.",
                *chosen.own_agent_notes,
                *chosen.notes,
            ),
        }
    )


def _source_file(path: str, module: str, folder: Path) -> Path:
    # The finder alone: `importlib.util.find_spec` would import the packages that a module is in.
    parts = module.split(".")
    places: list[str] | None = None
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        spec = PathFinder.find_spec(name, places)
        if spec is None and number == 1:
            spec = PathFinder.find_spec(name, [str(folder)])
        if spec is None:
            where = (
                f"on the Python path or in {folder}" if number == 1 else f"in {'.'.join(parts[: number - 1])}"
            )
            raise UnknownName(f"harness {path!r}: there is no module {name!r} {where}")
        places = list(spec.submodule_search_locations or ())
    assert spec is not None  # a name has at least one part
    return _file_of(path, module, spec)


def _file_of(path: str, module: str, spec: ModuleSpec) -> Path:
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise PluginError(f"harness {path!r}: module {module!r} has no source file")
    return Path(spec.origin).resolve()


def _function(path: str, attribute: str, tree: ast.Module, file: Path) -> _Function | None:
    """The definition of the factory; None where the name is bound otherwise."""
    names: set[str] = set()
    function: _Function | None = None
    for statement in tree.body:
        bound = set(_bound(statement))
        names |= bound
        if attribute in bound:
            function = statement if isinstance(statement, _Function) else None
    if attribute not in names and "*" not in names:
        raise UnknownName(
            f"harness {path!r}: {file} defines no {attribute!r} at its top level{nearest(attribute, names)}"
        )
    if function is not None:
        _check_arguments(path, function, file)
    return function


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # within `if` or `try`
                yield node.name


def _check_arguments(path: str, function: _Function, file: Path) -> None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    keywords = [
        argument.arg
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    if required > 1 or keywords or not (positional or arguments.vararg):
        raise InvalidInput(
            f"harness {path!r}: {function.name} ({file}, line {function.lineno}) has to take one argument, "
            f"an atp.protocol.own_agents.AgentParts, not ({ast.unparse(arguments)})"
        )


def _serving(
    path: str,
    sdk: str | None,
    function: _Function | None,
    tree: ast.Module,
    serving: Mapping[str, HarnessCard],
) -> str:
    if sdk is not None:
        if sdk not in serving:
            raise InvalidInput(
                f"harness.{SDK_OPTION}={sdk}: no such harness takes agents of one's own"
                f"{nearest(sdk, serving)}; those that do: {', '.join(sorted(serving))}"
            )
        return sdk
    declared = function.returns if function is not None else None
    packages = _packages(declared, tree) if declared is not None else frozenset[str]()
    found = [name for name, card in serving.items() if packages & set(card.agent_packages)]
    if len(found) == 1:
        return found[0]
    says = f"returns {ast.unparse(declared)!r}" if declared is not None else "declares no return type"
    raise InvalidInput(
        f"harness {path!r} {says}, which does not tell the SDK: declare the SDK's own type, as in "
        f"`def {path.partition(':')[2]}(parts) -> Agent`, or say -o harness.{SDK_OPTION}=NAME with one of "
        f"{', '.join(sorted(serving))}"
    )


def _packages(annotation: ast.expr, tree: ast.Module) -> frozenset[str]:
    """The top-level packages that the names of an annotation are imported from."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                origins[alias.asname or root] = root
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            for alias in node.names:
                origins[alias.asname or alias.name] = node.module.partition(".")[0]
    return frozenset(origins[name] for name in _names(annotation) if name in origins)


def _names(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # a forward reference
            try:
                yield from _names(ast.parse(node.value, mode="eval").body)
            except SyntaxError:
                continue  # a string of a `Literal`, not a type
