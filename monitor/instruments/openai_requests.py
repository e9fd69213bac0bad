"""Reading a request to OpenAI's chat completions or responses API: what a model is asked, canonically."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.instruments.image_parts import image_part
from monitor.instruments.openai_replies import call_part, json_object
from monitor.instruments.openai_responses_replies import reasoning_text
from monitor.instruments.remembered_forms import RememberedForms

_NOT_PARAMETERS = frozenset(
    {"messages", "input", "instructions", "tools", "model", "stream", "stream_options"}
)


@dataclass(slots=True)
class ModelRequest:
    """A request in the forms of `monitor.vocabulary`."""

    model: str | None
    stream: bool
    messages: list[dict[str, Any]]
    tools: list[Any] = field(default_factory=list)
    """As they go over the wire."""
    parameters: dict[str, Any] = field(default_factory=dict)


class RequestForms:
    """Reads the requests of an attempt, and remembers what they begin with; see `RememberedForms`."""

    def __init__(self) -> None:
        self._lists = RememberedForms()
        self._tools: list[Any] = []

    def read(self, body: bytes) -> ModelRequest:
        """Read a request's body.

        Raises:
            ValueError: It is no JSON object.
        """
        request = json_object(body)
        tools = list(request.get("tools") or ())
        if tools != self._tools:
            self._tools = tools
        model = request.get("model")
        return ModelRequest(
            model=model if isinstance(model, str) else None,
            stream=request.get("stream") is True,
            messages=self.messages(
                request["messages"] if "messages" in request else request.get("input"),
                request.get("instructions"),
            ),
            tools=self._tools,
            parameters={
                key: value
                for key, value in request.items()
                if key not in _NOT_PARAMETERS and value is not None
            },
        )

    def messages(self, raw: Any, instructions: Any = None) -> list[dict[str, Any]]:
        """The messages of a request.

        Args:
            raw: `messages` of a chat completion, or `input` of a response.
            instructions: Of a response.
        """
        items = [{"role": "user", "content": raw}] if isinstance(raw, str) else list(raw or ())
        if instructions:
            items.insert(0, {"role": "system", "content": instructions})
        return self._lists.forms(list(_grouped(items)), _message)


def _grouped(items: Sequence[Any]) -> Iterator[list[Any]]:
    """Items that stand side by side and are the model's are one message."""
    group: list[Any] = []
    for item in items:
        if _is_piece_of_reply(item):
            group.append(item)
            continue
        if group:
            yield group
            group = []
        yield [item]
    if group:
        yield group


def _is_piece_of_reply(item: Any) -> bool:
    """Whether a reply of the responses API may have others beside it."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind in {"reasoning", "function_call"} or (kind == "message" and item.get("role") == "assistant")


def _message(group: Sequence[Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    role, name = "assistant", None
    for item in group:
        if not isinstance(item, Mapping):
            parts.append({"type": "text", "content": str(item)})
            continue
        match item.get("type", "message"):
            case "function_call":
                call = (item.get(key) or "" for key in ("call_id", "name", "arguments"))
                parts.append(call_part(*call))
            case "function_call_output":
                role = "tool"
                parts.append(_response_part(item.get("call_id"), item.get("output")))
            case "reasoning":
                if text := reasoning_text(item):
                    parts.append({"type": "reasoning", "content": text})
            case "message":
                role, name = str(item.get("role") or "user"), item.get("name")
                parts.extend(_message_parts(item, role))
            case _:
                parts.append(dict(item))
    form: dict[str, Any] = {"role": role, "parts": parts}
    if name:
        form["name"] = name
    return form


def _message_parts(message: Mapping[str, Any], role: str) -> Iterator[dict[str, Any]]:
    if role == "tool":
        yield _response_part(message.get("tool_call_id"), message.get("content"))
        return
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        yield {"type": "reasoning", "content": reasoning}
    yield from _content_parts(message.get("content"))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        yield call_part(call.get("id") or "", function.get("name") or "", function.get("arguments") or "")


def _response_part(call_id: Any, content: Any) -> dict[str, Any]:
    response = content if isinstance(content, str) else list(_content_parts(content))
    return {"type": "tool_call_response", "id": call_id, "response": response}


def _content_parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        if content:
            yield {"type": "text", "content": content}
        return
    for part in content or ():
        if isinstance(part, str):
            yield {"type": "text", "content": part}
            continue
        match part.get("type"):
            case "text" | "input_text" | "output_text":
                yield {"type": "text", "content": part.get("text") or ""}
            case "refusal":
                yield {"type": "text", "content": part.get("refusal") or ""}
            case "image_url" | "input_image" if part.get("image_url"):
                url = part["image_url"]
                yield image_part(url if isinstance(url, str) else url["url"])
            case _:
                yield dict(part)
