"""JSON as the values of `objects`: every field has the type that it says; fields that a later node adds are skipped."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from dhow.errors import ProtocolError

T = TypeVar("T")


@functools.cache
def hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    return typing.get_type_hints(kind)


def read(kind: type[T], value: object) -> T:
    """An object as a dataclass. Raises ProtocolError where a field is missing or of another type."""
    if not isinstance(value, dict):
        raise ProtocolError(f"the node's answer is no {kind.__name__}: {value!r:.80}")
    found: dict[str, Any] = {}
    types_of = hints(typing.cast(Any, kind))
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        key = field.name.removesuffix("_")
        if key in value:
            found[field.name] = converted(types_of[field.name], value[key], f"{kind.__name__}.{key}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"the node's answer has no {kind.__name__}.{key}", "is the node older than this package?")
    return kind(**found)


def converted(kind: Any, value: object, place: str) -> object:
    """A value as a field's type."""
    origin, words = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = next(word for word in words if word is not types.NoneType)
        return None if value is None else converted(inner, value, place)
    if origin is tuple and isinstance(value, list):
        return tuple(converted(words[0], item, place) for item in value)
    if origin is Mapping and isinstance(value, dict):
        return {key: converted(words[1], item, f"{place}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return read(kind, value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool) == isinstance(value, bool):
        return value
    raise ProtocolError(f"{place} of the node's answer is {value!r:.80}")
