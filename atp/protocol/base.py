"""The base of every exchanged type, and the JSON values they carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints

JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object. Read-only by type: exchanged values are never changed in place."""

Digest: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal."""

RunId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^run-[a-z0-9][a-z0-9-]*$", max_length=160)]
"""The identity of one attempt (`target-invocation-v1` gives the pattern)."""


class Frozen(BaseModel):
    """A value that is exchanged: immutable, and closed to keys nobody defined."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        ser_json_inf_nan="constants",
        validate_default=False,
    )
