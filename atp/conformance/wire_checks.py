"""What stands on the wire between a harness and its model."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator

from atp.conformance.check import Problems
from atp.conformance.comparing import canonical, short
from atp.conformance.evidence import Attempt, Evidence, Mode
from atp.conformance.observing import OUTPUT_TOKENS, TEMPERATURE
from atp.conformance.probe_tasks import CONVERSATIONS, ENDLESS, FULL, LEAST, OTHER_PROMPT, PROMPT
from atp.conformance.probe_tools import BOOK, TOOLS
from atp.models.scripted.script import ScriptCall, ScriptStep
from atp.models.scripted.steps import Message, RequestView
from atp.protocol.base import JsonObject
from atp.protocol.cards import HarnessCard
from atp.protocol.errors import PluginError

_SAMPLING = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        # Gemini's, within `generationConfig`.
        "topP",
        "topK",
        "frequencyPenalty",
        "presencePenalty",
        "maxOutputTokens",
    }
)
_NOT_FOLLOWED = frozenset({"raising-tool", "unknown-tool"})
"""Probes in which a harness goes its own way; `behaviour_checks` looks at them."""


def system_prompt(evidence: Evidence) -> Problems:
    """The benchmark's system prompt goes out as given, once, with nothing added to it, where the SDK
    documents it; one that the card says stands `within` the harness's own stands there whole, and what is
    around it does not depend on it.

    Source: the design's "the adapter adds nothing to prompts".
    """
    for mode in evidence.modes:
        around: set[str] = set()
        for attempt in mode.scripted.values():
            for number, request in enumerate(attempt.requests, 1):
                texts = [message.text for message in request.sent.messages if message.role == "system"]
                found = list(_prompt_problems(evidence.card, attempt.probe.prompt, texts))
                yield from (f"{_where(mode, attempt, number)}: {problem}" for problem in found)
                if not found and attempt.probe.prompt in (PROMPT, OTHER_PROMPT):
                    around.add(texts[0].replace(attempt.probe.prompt, "", 1))
        if len(around) > 1:
            yield f"{mode.label}: what stands around the system prompt differs between tasks and requests"


def _prompt_problems(card: HarnessCard, prompt: str | None, texts: Sequence[str]) -> Iterator[str]:
    if card.prompt_on_wire == "verbatim":
        if list(texts) != ([] if prompt is None else [prompt]):
            yield f"the system messages are {short(texts)}, not the prompt {short(prompt)} alone"
    elif prompt is not None:
        times = [text.count(prompt) for text in texts]
        if times != [1]:
            yield f"the prompt stands {sum(times)} times in {len(texts)} system messages, not once in one"


def users_words(evidence: Evidence) -> Problems:
    """The first request holds, beside the system prompt, the instruction or the user's first line as it
    is, and nothing else.

    Source: the design's "the adapter adds nothing to prompts".
    """
    for mode, attempt in evidence.conversations:
        if not attempt.requests:
            yield f"{mode.label}, {attempt.probe.name}: no model was asked; it ended {attempt.summary}"
            continue
        said = [message for message in attempt.requests[0].heard.messages if message.role != "system"]
        if said != [Message("user", attempt.probe.lines[0])]:
            line = attempt.probe.lines[0]
            yield f"{_where(mode, attempt, 1)}: holds {short(said)}, not the user's {line!r}"


def tool_schemas(evidence: Evidence) -> Problems:
    """Every request offers the benchmark's tools with name, description and schema as they are, or with
    the schema that the card's `wire_schema` makes of it, and beside them only the card's owned tools.

    Source: the design's "the schema on the wire equals the binding's, or differs as the harness card
    declares"; JSON values are compared, so 2.0 is not 2.
    """
    rendered = _wire_schema(evidence.card)
    wanted = {tool.name: (tool.description, canonical(rendered(tool.parameters))) for tool in TOOLS}
    for mode, attempt in evidence.conversations:
        for number, request in enumerate(attempt.requests, 1):
            for problem in _offer_problems(evidence.card, request.sent, wanted):
                yield f"{_where(mode, attempt, number)}: {problem}"


def _offer_problems(
    card: HarnessCard, view: RequestView, wanted: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    offered = {tool.name: (tool.description, canonical(tool.parameters)) for tool in view.tools}
    if len(offered) < len(view.tools):
        yield "a tool is offered twice"
    for name in sorted(wanted.keys() - offered.keys()):
        yield f"tool {name!r} is not offered"
    for name in sorted(offered.keys() - wanted.keys() - set(card.owned_tools)):
        yield f"tool {name!r} is offered, which is neither the benchmark's nor on the card"
    for name, (description, schema) in wanted.items():
        if name not in offered:
            continue
        if offered[name][0] != description:
            yield f"tool {name!r} is described as {short(offered[name][0])}, not as {short(description)}"
        if offered[name][1] != schema:
            yield f"tool {name!r} has the schema {offered[name][1]}, not {schema}"


def schema_meaning(evidence: Evidence) -> Problems:
    """Whatever a benchmark's schema allows, the schema on the wire allows, with null for what is left out
    where the card says so: a declared difference may not forbid the model what the task needs.

    Source: the design's "a schema a harness cannot express" is refused, not narrowed.
    """
    for mode, attempt in evidence.conversations:
        for tool in attempt.requests[0].sent.tools if attempt.requests else ():
            if tool.name == BOOK.name:
                validator = Draft202012Validator(dict(tool.parameters))
                for arguments in (FULL, LEAST):
                    written = _written(evidence.card, arguments, tool.parameters)
                    for error in validator.iter_errors(written):
                        yield f"{mode.label}, {attempt.probe.name}: {BOOK.name} forbids {error.message}"


def _written(card: HarnessCard, value: Any, schema: Any) -> Any:
    """What a model writes that keeps to a schema on the wire, where the benchmark wants this value."""
    if card.optional_on_wire == "absent" or not isinstance(schema, Mapping):
        return value
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        return {
            **dict.fromkeys(properties),
            **{key: _written(card, item, properties.get(key)) for key, item in value.items()},
        }
    if isinstance(value, list):
        items = next((each["items"] for each in (schema, *schema.get("anyOf", ())) if "items" in each), None)
        return [_written(card, item, items) for item in value]
    return value


def conversation(evidence: Evidence) -> Problems:
    """Each request holds what the one before held, then the reply to that as it was given, with its calls
    under their ids, then their results under those ids or what the user said; nothing is pasted, repeated
    or left out, but for the text beside calls where the card says that it is dropped. Results stand within
    objects where the card says so. Of a harness whose card says that its history is `text`, the text tells
    the same, results whole but for white space at their ends.

    Source: the design's "continued in the harness's own memory or session; nothing is pasted back as a
    transcript".
    """
    for mode, attempt in evidence.conversations:
        if attempt.probe.name in _NOT_FOLLOWED:
            continue
        held: tuple[Message, ...] = ()
        for number, request in enumerate(attempt.requests, 1):
            now = request.heard.messages
            if number > 1:
                problem = _continuation(evidence.card, attempt, number, held, now)
                if problem is not None:
                    yield f"{_where(mode, attempt, number)}: {problem}"
            held = now
        if len(attempt.requests) != len(attempt.probe.steps):
            yield (
                f"{mode.label}, {attempt.probe.name}: {len(attempt.requests)} requests, "
                f"not {len(attempt.probe.steps)}; it ended {attempt.summary}"
            )


def _continuation(
    card: HarnessCard, attempt: Attempt, number: int, held: Sequence[Message], now: Sequence[Message]
) -> str | None:
    if number - 1 > len(attempt.probe.steps):
        return "there is no reply that it could follow"
    for position, message in enumerate(held):
        if position >= len(now) or now[position] != message:
            there = short(now[position]) if position < len(now) else "nothing"
            return f"message {position + 1} was {short(message)}, and is now {there}"
    step = attempt.probe.steps[number - 2]
    added = list(now[len(held) :])
    if not added or added[0].role != "assistant" or not _is_reply(card, step, added[0]):
        return f"the reply was {short(step)}, and stands as {short(added[:1])}"
    rest = added[1:]
    if step.tool_calls:
        return _results_problem(card, attempt, step.tool_calls, rest)
    line = sum(not earlier.tool_calls for earlier in attempt.probe.steps[: number - 1])
    wanted = Message("user", attempt.probe.lines[line]) if line < len(attempt.probe.lines) else None
    return None if rest == [wanted] else f"holds {short(rest)} behind the reply, not {short(wanted)}"


def _is_reply(card: HarnessCard, step: ScriptStep, message: Message) -> bool:
    calls = [(str(call.id), call.name, canonical(call.arguments or {})) for call in step.tool_calls]
    held = [(call.id, call.name, _canonical_text(call.arguments)) for call in message.tool_calls]
    if card.history_on_wire == "text":
        calls, held = sorted(calls), sorted(held)
    kept = card.text_beside_calls == "kept" or not step.tool_calls
    return message.text == ((step.text or "") if kept else "") and held == calls


def _results_problem(
    card: HarnessCard, attempt: Attempt, calls: Sequence[ScriptCall], messages: Sequence[Message]
) -> str | None:
    ids = [message.tool_call_id for message in messages]
    if any(message.role != "tool" for message in messages) or sorted(map(str, ids)) != sorted(
        str(call.id) for call in calls
    ):
        return f"results of {[call.id for call in calls]} are due, and there are {short(messages)}"
    for call in calls:
        held = next(message.text for message in messages if message.tool_call_id == call.id)
        made = attempt.executed(str(call.id), call.name)
        results = [_result_text(each.result, each.error) for each in made]
        wrapped = [canonical({"result": text}) for text in results]
        if card.history_on_wire == "messages":
            told = held in results or (card.results_on_wire == "object" and _canonical_text(held) in wrapped)
        else:
            told = any(text.strip() in held for text in results)
        if not told:
            return f"the result of {call.id} was {short(results)}, and is told as {short(held)}"
    return None


def isolation(evidence: Evidence) -> Problems:
    """No request holds words of another attempt, though many run at once in one worker.

    Source: the design's "one worker runs many attempts at once", each with its own world and memory.
    """
    marks = {probe.name: f"[{probe.name}]" for probe in CONVERSATIONS}
    for mode, attempt in evidence.conversations:
        for number, request in enumerate(attempt.requests, 1):
            said = "\n".join(message.text for message in request.sent.messages)
            for name, mark in marks.items():
                if name != attempt.probe.name and mark in said:
                    yield f"{_where(mode, attempt, number)}: holds words of {name!r}"


def sampling(evidence: Evidence) -> Problems:
    """Sampling parameters are the user's; what the user has not chosen is left to the provider.

    Source: the design's "sampling parameters are the user's, else the provider's default for every harness
    alike".
    """
    for mode, attempt in evidence.conversations:
        for number, request in enumerate(attempt.requests, 1):
            asked = _parameters(request.body)
            chosen = sorted(key for key in _SAMPLING if asked.get(key) is not None)
            if chosen:
                yield f"{_where(mode, attempt, number)}: nobody has asked for {', '.join(chosen)}"
    for number, request in enumerate(evidence.bounded[ENDLESS.name].requests, 1):
        asked = _parameters(request.body)
        for value in (TEMPERATURE, OUTPUT_TOKENS):
            if value not in {asked.get(key) for key in _SAMPLING}:
                yield f"under limits, {ENDLESS.name}, request {number}: the user's {value:g} is missing"


def _parameters(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, **body.get("generationConfig", {})}


WIRE_CHECKS = (
    system_prompt,
    users_words,
    tool_schemas,
    schema_meaning,
    conversation,
    isolation,
    sampling,
)


def _where(mode: Mode, attempt: Attempt, number: int) -> str:
    return f"{mode.label}, {attempt.probe.name}, request {number}"


def _wire_schema(card: HarnessCard) -> Callable[[JsonObject], JsonObject]:
    if card.wire_schema is None:
        return lambda parameters: parameters
    module, _, name = card.wire_schema.partition(":")
    try:
        function: Callable[[JsonObject], JsonObject] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise PluginError(
            f"harness {card.name!r}: its wire_schema {card.wire_schema!r} cannot be loaded: {error}"
        ) from error
    return function


def _result_text(value: Any, error: str | None) -> str:
    if error is not None:
        return error
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _canonical_text(text: str) -> str:
    try:
        return canonical(json.loads(text))
    except ValueError:
        return text
