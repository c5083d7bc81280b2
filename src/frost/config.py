"""Dataclass ⇄ dict, dotted overrides such as `model.depth=12`, and what a field says of itself.

Knows nothing of any particular configuration: fields, types, limits and help are read from the dataclass itself.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import operator
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

Config = TypeVar("Config")
WORDS: dict[Any, str] = {int: "whole number", float: "number", bool: "true or false", str: "text"}


class Setting(NamedTuple):
    """One field of a configuration, as the command line shows it."""

    path: str        # such as model.depth
    type: str        # in words; of a choice, what can be chosen
    value: Any
    default: Any     # None where a value must be given
    help: str


def setting(default: Any, help: str, *, least: float | None = None, most: float | None = None,
            above: float | None = None, below: float | None = None, formerly: tuple[str, ...] = ()) -> Any:
    """A field with a default, one line of help and limits: least ≤ value ≤ most, above < value < below.

    Args:
        formerly: names that it had, so that who types one of them is shown today's.
    """
    metadata = described(help, least=least, most=most, above=above, below=below)
    return dataclasses.field(default=default, metadata={**metadata, "formerly": formerly})


def described(help: str, **limits: float | None) -> dict[str, Any]:
    """Metadata of a field without a default: `field(metadata=described("…"))`."""
    return {"help": help, **{name: limit for name, limit in limits.items() if limit is not None}}


def settings_of(config: Any, where: str = "") -> Iterator[Setting]:
    """Every field of a configuration, those of its groups included, in order."""
    hints = fields_of(type(config))
    for field in dataclasses.fields(config):
        path, value = f"{where}.{field.name}" if where else field.name, getattr(config, field.name)
        if dataclasses.is_dataclass(hints[field.name]):
            yield from settings_of(value, path)
        else:
            default = None if field.default is dataclasses.MISSING else field.default
            yield Setting(path, _in_words(hints[field.name]), value, default, field.metadata.get("help", ""))


def suggest(name: str, known: Iterable[str]) -> str:
    """A sentence that helps somebody who typed `name`: the nearest known name, else all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names)}."


def to_dict(config: Any) -> dict[str, Any]:
    """The dataclass as plain dicts, lists, strings and numbers, ready for JSON."""
    return dataclasses.asdict(config)


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass and their types."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def from_dict(kind: type[Config], values: Mapping[str, Any], where: str = "") -> Config:
    """Build `kind` from plain values; an unknown field or a value of the wrong type is a ValueError."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{where or kind.__name__}: expected an object of fields, got {values!r}.")
    hints = fields_of(kind)
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{where}.{name}" if where else name
        if name not in hints:
            raise ValueError(f"{path}: {kind.__name__} has no field '{name}'. {suggest(name, hints)}")
        hint: Any = hints[name]
        is_group = dataclasses.is_dataclass(hint)
        arguments[name] = from_dict(hint, value, path) if is_group else _checked(value, hint, path)
    return _built(kind, arguments, where)


def check_fields(config: Any) -> None:
    """Refuse a field whose value is not of its type or choice, or outside its limits; for `__post_init__`."""
    hints = fields_of(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if not dataclasses.is_dataclass(hints[field.name]):
            _checked(value, hints[field.name], field.name)
            _check_limits(field, value)


def _check_limits(field: Any, value: Any) -> None:
    """Refuse a number outside the limits of its `setting`."""
    limits = (("least", "at least", operator.ge), ("above", "above", operator.gt), ("most", "at most", operator.le),
              ("below", "below", operator.lt))
    known = [(words, field.metadata[name], holds) for name, words, holds in limits if name in field.metadata]
    if not all(holds(value, limit) for _, limit, holds in known):
        bounds = " and ".join(f"{words} {limit:,}" for words, limit, _ in known)
        raise ValueError(f"{field.name} must be {bounds}, got {value}; the default is {field.default}.")


def override(config: Config, assignments: Iterable[str], where: str = "") -> Config:
    """Apply assignments `path.to.field=value`; each value is read as the field's own type, later ones win.

    The result is checked once, when all are in place, so that their order does not matter.

    Args:
        where: a group that `config` is, such as `model`; its name may then stand before a path or not.
    """
    values = to_dict(config)
    for assignment in assignments:
        path, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not path:
            raise ValueError(f"--set takes path=value, for instance model.depth=12; got '{assignment}'.")
        inside = path.removeprefix(f"{where}.") if where else path
        _check_path(config, inside.split("."), path)
        _assign(type(config), values, inside.split("."), text, path)
    return from_dict(type(config), values, where)


def _formerly(config: Any, name: str, where: str = "") -> Iterator[str]:
    """Paths of the settings that once had this name."""
    for field in dataclasses.fields(config):
        path = f"{where}.{field.name}" if where else field.name
        if name in field.metadata.get("formerly", ()):
            yield path
        if dataclasses.is_dataclass(getattr(config, field.name)):
            yield from _formerly(getattr(config, field.name), name, path)


def _check_path(config: Any, names: list[str], path: str) -> None:
    """Refuse a name that its group does not have; one that another group has is what is suggested."""
    kind: Any = type(config)
    for name in names:
        hints = fields_of(kind)
        if name not in hints:
            others = [other.path for other in settings_of(config) if other.path.split(".")[-1] == name]
            others += list(_formerly(config, name))
            hint = f"Did you mean '{others[0]}'?" if others else suggest(name, hints)
            raise ValueError(f"{path}: {kind.__name__} has no field '{name}'. {hint}")
        if not dataclasses.is_dataclass(hints[name]):
            return
        kind = hints[name]


def _assign(kind: Any, values: dict[str, Any], names: list[str], text: str, path: str) -> None:
    name, rest = names[0], names[1:]
    hint = fields_of(kind)[name]
    if dataclasses.is_dataclass(hint):
        if not rest:
            inside = ", ".join(fields_of(hint))
            raise ValueError(f"{path} is a group of fields; set one of them, for instance {path}.…: {inside}.")
        _assign(hint, values[name], rest, text, path)
    elif rest:
        raise ValueError(f"{path}: '{name}' is a single value and has no field '{rest[0]}'.")
    else:
        values[name] = _parsed(text, hint, path)


def _built(kind: type[Config], arguments: dict[str, Any], where: str) -> Config:
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ValueError(f"{where or kind.__name__}: {error}.") from error
    except ValueError as error:
        prefix = f"{where}: " if where and not str(error).startswith(where) else ""
        raise ValueError(f"{prefix}{error}") from error


def _in_words(hint: Any) -> str:
    """What a field takes, for a person."""
    options = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(map(str, options))
    if type(None) in options:
        return f"{_in_words(next(option for option in options if option is not type(None)))} or none"
    return WORDS.get(hint, str(hint))


def _parsed(text: str, hint: Any, path: str) -> Any:
    """Read `text` as a value of type `hint`."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return _checked(text, hint, path)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if text.lower() in ("none", "null") else _parsed(text, options[0], path)
    if hint is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in words:
            raise ValueError(f"{path} takes true or false, got '{text}'.")
        return words[text.lower()]
    if hint in (int, float):
        try:
            return _checked(hint(text), hint, path)
        except ValueError:
            kind = "a whole number" if hint is int else "a finite number"
            raise ValueError(f"{path} takes {kind}, got '{text}'.") from None
    return text


def _checked(value: Any, hint: Any, path: str) -> Any:
    """Return `value` if it is of type `hint` (an int may stand for a float); else raise."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        options = typing.get_args(hint)
        if value not in options:
            raise ValueError(f"{path} is one of {', '.join(map(str, options))}; got '{value}'.")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in typing.get_args(hint):
            return None
        return _checked(value, next(o for o in typing.get_args(hint) if o is not type(None)), path)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{path} takes a value of type {hint.__name__}, got {value!r}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path} takes a finite number, got {value}.")
    return value
