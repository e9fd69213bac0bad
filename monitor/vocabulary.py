"""The semantic layer: what the attributes and bodies of the five behaviours are called.

These are the canonical names, as stored. OpenInference and GenAI names are rendered from them at
export, so a convention that is renamed changes a rendering and no stored span.

A message is `{"role": "system" | "developer" | "user" | "assistant" | "tool", "parts": [part, …]}`,
a part one of::

    {"type": "text", "content": str}
    {"type": "reasoning", "content": str}
    {"type": "tool_call", "id": str | null, "name": str, "arguments": object | str}
    {"type": "tool_call_response", "id": str | null, "response": str | [part, …]}
    {"type": "uri", "modality": str, "uri": str}
    {"type": "blob", "modality": str, "mime_type": str, "content": base64}
    {"type": "file", "modality": str, "mime_type": str, "file_id": sha256, "name": str?}

the form of the GenAI semantic conventions v0.1.0; parts of other types are kept as the SDK has
them. `arguments` is a string only where the harness could not read it as an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Any span
ACTOR: Final = "atp.actor"
"""On whose behalf: agent, user_simulator, judge (`atp.protocol.spans.Actor`)."""
RECORDER_FAILURES: Final = "atp.recorder.failures"
"""On the root: how often recording failed; each is a `recorder.failure` event there (the first 20)."""
RECORDER_LATE_SPANS: Final = "atp.recorder.late_spans"
"""On the root: spans still open when the attempt ended, and changes to spans that had ended."""
VALUES_ALTERED: Final = "atp.recorder.values_altered"
"""How many values of the span had no exact form here and were stored in a stated one."""
LINKED_TRACES: Final = "links"
"""W3C `traceparent`s of spans a foreign span links to."""
SCOPE: Final = "otel.scope.name"
"""Instrumentation scope of a span that foreign code recorded."""

# agent
AGENT_NAME: Final = "agent.name"

# chain
CHAIN_NAME: Final = "chain.name"

# model
MODEL_NAME: Final = "model.name"
"""The model asked for."""
MODEL_ANSWERED: Final = "model.answered"
"""The model that answered, by its own account."""
MODEL_PARAMETERS: Final = "model.parameters"
"""Body: sampling and other parameters of the request, without messages and tools."""
MODEL_STREAM: Final = "model.stream"
"""Whether the answer was streamed."""
TIME_TO_FIRST_CHUNK: Final = "model.time_to_first_chunk"
"""Seconds; only when streaming."""
RESPONSE_ID: Final = "model.response_id"
FINISH_REASON: Final = "model.finish_reason"
ANNOUNCED_CALL_IDS: Final = "model.tool_calls.ids"
"""Ids of the tool calls the reply asks for, in order."""
ANNOUNCED_CALL_NAMES: Final = "model.tool_calls.names"
"""Their tools, in the same order."""
WRITTEN_CALL_NAMES: Final = "model.tool_calls.written"
"""Tools that the harness calls by what the reply says as text; the model gave these calls no id."""
REJECTED_CALL_IDS: Final = "model.tool_calls.rejected"
"""Those of them that the harness answers itself: arguments it cannot read, tools it does not have."""
TOOL_CALL_TEXTS: Final = "model.tool_calls.texts"
"""Body: call id -> arguments as the model wrote them, character by character."""
RETRIES: Final = "model.retries"
"""Tries of this call that failed before, as the client of the SDK counted them."""
FAILED_REPLY: Final = "model.failed_reply"
"""Where the provider answered and it came to nothing: `unreadable`, if that was no reply or none whole, or
`refused`, if it was whole and the SDK does not take it."""
USAGE_INPUT: Final = "usage.input_tokens"
"""Cached ones included."""
USAGE_OUTPUT: Final = "usage.output_tokens"
"""Reasoning included."""
USAGE_CACHE_READ: Final = "usage.cache_read_tokens"
USAGE_CACHE_WRITE: Final = "usage.cache_write_tokens"
USAGE_REASONING: Final = "usage.reasoning_tokens"
USAGE: Final[Mapping[str, str]] = {
    "input_tokens": USAGE_INPUT,
    "output_tokens": USAGE_OUTPUT,
    "cache_read_tokens": USAGE_CACHE_READ,
    "cache_write_tokens": USAGE_CACHE_WRITE,
    "reasoning_tokens": USAGE_REASONING,
}
"""Field of `atp.protocol.trace.Usage` -> its attribute."""
INPUT_MESSAGES: Final = "input.messages"
"""Body: list of messages."""
OUTPUT_MESSAGES: Final = "output.messages"
"""Body: list of messages."""
TOOL_DEFINITIONS: Final = "tool.definitions"
"""Body: list of definitions as they go over the wire."""
REPEATED_TRY: Final = "model.repeated_try"
"""Event: the request goes out again (`retry_count`), after a try that failed or was given up."""
FAILED_TRY: Final = "model.failed_try"
"""Event: an HTTP answer of the provider that was no reply (`http.status_code`, `retry_count`, and
`retry_after` in seconds where it asked for time)."""

# tool
TOOL_NAME: Final = "tool.name"
TOOL_CALL_ID: Final = "tool.call_id"
TOOL_CALL_ID_SOURCE: Final = "tool.call_id.source"
"""`model` or `binding` (`atp.protocol.trace.CallIdSource`)."""
ARGUMENTS: Final = "tool.arguments"
"""Body: as delivered by the harness."""
ARGUMENTS_ALTERED: Final = "arguments_altered_by_harness"
"""Body: the model's text, where the arguments delivered by the harness are not what it says."""
RESULT: Final = "tool.result"
"""Body."""

# skill: a scope around several calls; a tool that loads one carries the name too
SKILL_NAME: Final = "skill.name"

# Bodies of any behaviour
INPUT: Final = "input"
"""On the root: list of messages, the task's instruction; not there where the user speaks first."""
OUTPUT: Final = "output"
"""On the root: list of messages, the final answer; not there without one."""

# Events
RECORDER_FAILURE: Final = "recorder.failure"
