"""Models: names, providers and their endpoints; scripted models live in `atp.models.scripted`."""

from atp.models.providers import (
    PROVIDERS,
    SCRIPTED_DIALECTS,
    Provider,
    dialects_of,
    provider_endpoint,
)
from atp.models.ref import SCRIPTED_MODELS, ModelRef

__all__ = [
    "PROVIDERS",
    "SCRIPTED_DIALECTS",
    "SCRIPTED_MODELS",
    "ModelRef",
    "Provider",
    "dialects_of",
    "provider_endpoint",
]
