"""The tree as JSON and back. Every object carries the name of its class under "is"; spans are `[path, start, end]`; fields that
have their default are left out. What is loaded equals what was saved."""

import json
import math
from collections.abc import Callable
from enum import Enum
from functools import cached_property
from types import ModuleType, UnionType
from typing import Any, Union, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from compiler.source import Span
from compiler.typed_ast import kernel, nodes, types

_TAG = "is"
_Loader = Callable[[Any, Any], Any]


class TreeJson:
    """Saves and loads trees whose classes stand in the given modules, no two of them under one name."""

    def __init__(self, *modules: ModuleType) -> None:
        self._modules = modules
        self._loaders: dict[str, _Loader] = {}
        self._savers: dict[type, Callable[[Any], dict[str, Any]]] = {}

    def to_json(self, node: object, indent: int | None = None) -> str:
        """A node, type or metadata object as JSON text."""
        return json.dumps(self.to_data(node), indent=indent, ensure_ascii=False, allow_nan=False)

    def from_json(self, text: str) -> Any:
        """What `to_json` was given. Raises ValueError on text that is no saved tree."""
        return self.from_data(json.loads(text))

    def to_data(self, value: object) -> Any:
        """A node, type or metadata object as plain dictionaries and lists."""
        return self._converter.unstructure(value)

    def from_data(self, data: Any) -> Any:
        """What `to_data` was given."""
        if not isinstance(data, dict):
            raise ValueError("not a saved tree: it is no object")
        try:
            return self._any_from_data(data, object)
        except (KeyError, TypeError, AttributeError) as fault:
            raise ValueError(f"not a saved tree: {fault}") from fault

    @cached_property
    def _classes(self) -> dict[str, type]:
        found = {
            cls.__name__: cls
            for module in self._modules
            for cls in vars(module).values()
            if isinstance(cls, type) and (attrs.has(cls) or issubclass(cls, Enum)) and cls.__module__.startswith(module.__name__)
        }
        for cls in found.values():
            if attrs.has(cls):
                attrs.resolve_types(cls)
        return found

    def _is_tree_class(self, cls: Any) -> bool:
        return isinstance(cls, type) and self._classes.get(cls.__name__) is cls and attrs.has(cls)

    def _plain_any(self, value: Any) -> Any:
        """Values in fields without a precise type: numbers, texts, tuples, tagged objects; floats that JSON lacks by name."""
        match value:
            case float() if not math.isfinite(value):
                return {_TAG: "float", "value": repr(value)}
            case None | bool() | int() | float() | str():
                return value
            case tuple():
                return [self._plain_any(v) for v in value]
        return self._converter.unstructure(value)

    def _any_from_data(self, data: Any, _: Any) -> Any:
        match data:
            case list():
                return tuple(self._any_from_data(item, object) for item in data)
            case {"is": "float", "value": str(text)}:
                return float(text)
            case {"is": str(name)} if name in self._classes:
                return self._loader(name)(data, self._classes[name])
        if isinstance(data, dict):
            raise ValueError(f"not a saved tree: {str(data)[:60]}")
        return data

    def _loader(self, name: str) -> _Loader:
        if name not in self._loaders:
            cls = self._classes[name]
            if issubclass(cls, Enum):
                self._loaders[name] = lambda data, _: cls(data["value"])
            else:
                self._loaders[name] = make_dict_structure_fn(cls, self._converter, _cattrs_forbid_extra_keys=False)
        return self._loaders[name]

    def _unstructure(self, value: Any) -> dict[str, Any]:
        cls = type(value)
        if cls not in self._savers:
            self._savers[cls] = make_dict_unstructure_fn(cls, self._converter, _cattrs_omit_if_default=True)
        return {_TAG: cls.__name__, **self._savers[cls](value)}

    @cached_property
    def _converter(self) -> Converter:
        converter = Converter(unstruct_collection_overrides={tuple: list}, detailed_validation=False)
        converter.register_unstructure_hook_func(self._is_tree_class, self._unstructure)
        converter.register_structure_hook_func(self._is_tree_class, self._any_from_data)
        # A field typed as a union (`Expression | None`, `int | ShapeExpr`) or `object` holds values that tell their own class.
        converter.register_structure_hook_func(_is_open, self._any_from_data)
        converter.register_unstructure_hook_func(_is_open, self._plain_any)
        converter.register_unstructure_hook(float, self._plain_any)
        converter.register_structure_hook(float, self._any_from_data)
        converter.register_unstructure_hook(Span, lambda span: [span.path, span.start, span.end])
        converter.register_structure_hook(Span, lambda data, _: Span(*data))
        # One by one, because cattrs would take an IntEnum for an int.
        for cls in self._classes.values():
            if issubclass(cls, Enum):
                converter.register_unstructure_hook(cls, lambda value: {_TAG: type(value).__name__, "value": value.value})
                converter.register_structure_hook(cls, lambda data, cls: cls(data["value"]))
        return converter


def _is_open(annotation: Any) -> bool:
    return annotation in (object, Any) or get_origin(annotation) in (Union, UnionType)


SHARED_MODULES = (types, kernel, nodes)
_SHARED = TreeJson(*SHARED_MODULES)
to_json, from_json, to_data, from_data = _SHARED.to_json, _SHARED.from_json, _SHARED.to_data, _SHARED.from_data
