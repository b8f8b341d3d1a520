"""Classes of fields, declared as with `attrs` (`Factory`, `evolve` and `field` go with them, from here or there). What attrs writes for a
class, its `__init__`, its comparison, its text, is written when the class is used: that takes longer than all else of an import, and a
program meets a third of the classes that it imports. Plain classes, which are nearly all, have methods of `record_methods` instead, and
attrs is imported when somebody asks it about a class, or for what only attrs does: compiling a program needs it nowhere."""

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from runtime.forks import quiet_lock
from runtime.record_methods import converting_setattr, equal_of, hash_of, init_of, repr_of

__all__ = ["Factory", "as_plain", "define", "evolve", "field", "fields_of", "frozen", "frozen_in_types"]

_AT_FIRST = 25
"""Objects of a class that are made before its `__init__` is written: writing it takes as long."""

_PLAIN_OPTIONS = {"frozen", "on_setattr", "eq", "init", "order", "by_types", "unsafe_hash", "kw_only"}
_PLAIN_FIELDS = {"default", "factory", "converter", "eq", "repr", "init", "metadata"}


_LOCK = quiet_lock()


class _Unwritten:
    """`__attrs_attrs__`, by which attrs knows its classes, of one that it has not written yet."""

    def __init__(self, cls: type, options: dict[str, Any]) -> None:
        own = vars(cls)
        self.cls, self.options = cls, options
        if "__init__" not in own:
            # said outright, for the one that stands in for it until then counts as the class's own
            options.setdefault("init", True)

            def first(record: Any, /, *arguments: Any, **named: Any) -> None:
                values = self._values(type(record), arguments, named)
                if values is None:
                    self.write()
                    type(record).__init__(record, *arguments, **named)
                else:
                    vars(record).update(values)
                    if self._finishes:
                        record.__attrs_post_init__()

            cls.__init__ = first  # type: ignore[misc]
        if "__getstate__" not in own and "__reduce__" not in own:
            cls.__getstate__, cls.__setstate__ = _state, _restore  # type: ignore[assignment, attr-defined, method-assign]
        self._made = 0
        self._fields: dict[str, tuple[str, dict[str, Any]]] | None = None
        self._parameters: list[str] = []
        self._finishes = False
        self._is_by_both = False
        self._standing_in: list[str] = []
        self._own = self._own_fields()
        cls.__declared__ = self  # type: ignore[attr-defined]

    # ---- objects that are made before the class is written ----

    def _values(self, cls: type, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
        """The fields of a new object by name; None where attrs has to see to it."""
        self._made += 1
        if cls is not self.cls:
            return None
        if self._made > _AT_FIRST and self._fields is not None:
            self._write_init()
        if self._made == 1:
            self._fields = self._plain_fields()
            if self._fields is not None:
                self._stand_in()
        fields = self._fields
        if fields is None or len(arguments) > len(self._parameters):
            return None
        given = dict(zip(self._parameters, arguments, strict=False))
        if given.keys() & named.keys():
            return None
        given.update(named)
        values: dict[str, Any] = {}
        for parameter, (name, options) in fields.items():
            is_given = options.get("init", True) and parameter in given
            if is_given:
                value = given.pop(parameter)
            elif "factory" in options:
                value = options["factory"]()
            elif "default" in options:
                value = options["default"]
            elif not options.get("init", True):
                continue
            else:
                return None
            converter = options.get("converter")
            values[name] = value if converter is None else converter(value)
        return None if given else values

    def _plain_fields(self) -> dict[str, tuple[str, dict[str, Any]]] | None:
        """By the name of its parameter, the name of each field and what is said of it, in attrs' order: those of bases first, but for
        the ones that the class declares again; None for a class that isn't plain."""
        cls = self.cls
        if not self.options.keys() <= _PLAIN_OPTIONS or issubclass(cls, BaseException):
            return None
        if any(hasattr(cls, name) for name in ("__attrs_pre_init__", "__attrs_init__")):
            return None
        fields: dict[str, dict[str, Any]] = {}
        by_name: set[bool] = set()
        for base in reversed(cls.__mro__):
            declared = vars(base).get("__declared__")
            if declared is None and "__attrs_attrs__" in vars(base):
                return None
            if declared is not None:
                if declared._own is None:
                    return None
                by_name.add(bool(declared.options.get("kw_only")))
                for name, options in declared._own.items():
                    fields.pop(name, None)
                    fields[name] = options
        plain = {name.lstrip("_"): (name, options) for name, options in fields.items()}
        self._parameters = [] if True in by_name else [name for name, (_, said) in plain.items() if said.get("init", True)]
        self._is_by_both = len(by_name) > 1
        self._finishes = hasattr(cls, "__attrs_post_init__")
        return plain

    def _own_fields(self) -> dict[str, dict[str, Any]] | None:
        """What the class itself says of each of its fields; None where only attrs knows."""
        own = vars(self.cls)
        fields: dict[str, dict[str, Any]] = {}
        for name, annotation in own.get("__annotations__", {}).items():
            if "ClassVar" in str(annotation):
                continue
            options = _said_of(own[name]) if name in own else {}
            if options is None or not options.keys() <= _PLAIN_FIELDS:
                return None
            fields[name] = options
        return fields

    def changed(self, record: Any, changes: dict[str, Any]) -> Any:
        """As `attrs.evolve`, for an object of the class that attrs hasn't written; None where attrs has to see to it."""
        if self._fields is None or type(record) is not self.cls:
            return None
        kept = {
            parameter: getattr(record, name)
            for parameter, (name, options) in self._fields.items()
            if options.get("init", True) and parameter not in changes
        }
        return self.cls(**kept, **changes)

    def _stand_in(self) -> None:
        """Gives the class what attrs would, to be written when it is asked for."""
        cls, own = self.cls, vars(self.cls)

        def written(method: str) -> Any:
            def ask(record: Any, /, *arguments: Any) -> Any:
                self.write()
                return getattr(type(record), method)(record, *arguments)

            return ask

        fields, options = self._fields, self.options
        assert fields is not None
        by_place = tuple(fields[name][0] for name in self._parameters)
        cls.__match_args__ = _LatePatterns(self) if self._is_by_both else by_place  # type: ignore[misc, attr-defined]
        self._standing_in = ["__match_args__"]
        if "__repr__" not in own:
            options["repr"] = True
            cls.__repr__ = repr_of(fields)  # type: ignore[method-assign, assignment]
        if options.get("eq", True) and "__eq__" not in own:
            if options.get("order"):
                options["eq"] = True
                cls.__eq__ = written("__eq__")  # type: ignore[method-assign]
            else:
                options["eq"] = False  # attrs leaves these as they are
                cls.__eq__ = equal_of(fields)  # type: ignore[method-assign, assignment]
            if own.get("__hash__") is None:
                if not (options.get("frozen") or options.get("unsafe_hash")):
                    cls.__hash__ = None  # type: ignore[assignment]
                elif options["eq"]:
                    options["unsafe_hash"] = True
                    cls.__hash__ = written("__hash__")  # type: ignore[method-assign]
                else:
                    options.pop("unsafe_hash", None)
                    cls.__hash__ = hash_of(cls, fields)  # type: ignore[method-assign, assignment]
        if options.get("order"):
            for method in ("__lt__", "__le__", "__gt__", "__ge__"):
                setattr(cls, method, written(method))
        if "__setattr__" not in own:
            if options.get("frozen"):
                self._standing_in += ["__setattr__", "__delattr__"]
                cls.__setattr__ = written("__setattr__")  # type: ignore[method-assign]
                cls.__delattr__ = written("__delattr__")  # type: ignore[method-assign]
            elif self._converts:
                self._standing_in += ["__setattr__"]
                cls.__setattr__ = converting_setattr(fields)  # type: ignore[method-assign, assignment]

    @property
    def _converts(self) -> bool:
        """Whether assignments convert, as making an object does."""
        if self.options.get("frozen") or self.options.get("by_types") or self._fields is None:
            return False
        return any(said.get("converter") is not None for _, said in self._fields.values())

    def _write_init(self) -> None:
        """The `__init__` of a class that there are many objects of."""
        with _LOCK:
            if vars(self.cls).get("__attrs_attrs__") is not self or self._is_by_both:
                return
            plainly_set = self.cls.__setattr__ is object.__setattr__
            assert self._fields is not None
            self.cls.__init__ = init_of(self.cls, self._fields, self._parameters, self._finishes, plainly_set)

    # ---- the class that attrs writes ----

    def __get__(self, instance: object, owner: type) -> Any:
        self.write()
        return owner.__attrs_attrs__  # type: ignore[attr-defined]

    def write(self) -> None:
        """Has attrs write the class, behind those that it is made of."""
        import attrs

        with _LOCK:
            for cls in reversed(self.cls.__mro__):
                unwritten = vars(cls).get("__attrs_attrs__")
                if isinstance(unwritten, _Unwritten):
                    by_types = unwritten.options.pop("by_types", False)
                    plain: dict[str, Any] = {"on_setattr": attrs.setters.NO_OP} if by_types else {}
                    for name in unwritten._standing_in:
                        delattr(cls, name)  # attrs freezes no class that has one, and keeps the patterns that are there
                    for name, said in [*vars(cls).items()]:
                        if isinstance(said, _LateField | _LateFactory):
                            setattr(cls, name, said.for_attrs())
                    attrs.define(cls, slots=False, **plain, **unwritten.options)


class _LatePatterns:
    """`__match_args__` of a class some of whose fields are given by their places and some by their names alone: as attrs has it."""

    def __init__(self, unwritten: _Unwritten) -> None:
        self.unwritten = unwritten

    def __get__(self, instance: object, owner: type) -> Any:
        self.unwritten.write()
        return owner.__match_args__  # type: ignore[attr-defined]


def as_plain(value: Any) -> Any:
    """What JSON has: records, in whatever holds them, as dictionaries of their fields, sequences and sets as lists, members of enumerations
    as their values."""
    if isinstance(value, dict):
        return {as_plain(key): as_plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_plain(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    if any("__declared__" in vars(base) for base in type(value).__mro__):
        return {each.name: as_plain(getattr(value, each.name)) for each in fields_of(type(value))}
    return value


def _state(record: Any) -> dict[str, Any]:
    """What is pickled: also of an object without fields, so that `_restore` sees it."""
    return dict(vars(record))


def _restore(record: Any, state: dict[str, Any]) -> None:
    """An object that was pickled comes back without `__init__`, and perhaps as the first of its class."""
    type(record).__attrs_attrs__  # noqa: B018
    vars(record).update(state)


def _declared(cls: type | None, options: dict[str, Any]) -> Any:
    if cls is None:
        return lambda cls: _declared(cls, options)
    cls.__attrs_attrs__ = _Unwritten(cls, dict(options))  # type: ignore[attr-defined]
    return cls


class DeclaredField(NamedTuple):
    """A field as its class declares it. `type`: its annotation; `metadata`: what is said of it for our own use."""

    name: str
    type: Any
    metadata: dict[str, Any]


def fields_of(cls: Any) -> tuple[DeclaredField, ...]:
    """The fields of a class in the order of `attrs.fields`, which has to write the class to tell them."""
    known = _FIELDS.get(cls)
    if known is None:
        known = _FIELDS[cls] = _fields_of(cls)
    return known


_FIELDS: dict[Any, tuple[DeclaredField, ...]] = {}


def _fields_of(cls: Any) -> tuple[DeclaredField, ...]:
    found: dict[str, DeclaredField] = {}
    for base in reversed(cls.__mro__):
        declared = vars(base).get("__declared__")
        if declared is None and "__attrs_attrs__" not in vars(base):
            continue
        if declared is None or declared._own is None:
            import attrs

            return tuple(DeclaredField(each.name, each.type, dict(each.metadata)) for each in attrs.fields(cls))
        for name, options in declared._own.items():
            found.pop(name, None)
            found[name] = DeclaredField(name, vars(base)["__annotations__"][name], options.get("metadata", {}))
    return tuple(found.values())


class _LateFactory:
    """`attrs.Factory`, until attrs is there."""

    def __init__(self, factory: Any) -> None:
        self.factory = factory

    def for_attrs(self) -> Any:
        import attrs

        return attrs.Factory(self.factory)


class _LateField:
    """`attrs.field`, until attrs is there."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def for_attrs(self) -> Any:
        import attrs

        return attrs.field(**{name: said.for_attrs() if isinstance(said, _LateFactory) else said for name, said in self.options.items()})


def _said_of(said: Any) -> dict[str, Any] | None:
    """What a class says of a field; None for what only attrs knows."""
    if isinstance(said, _LateField):
        options = dict(said.options)
        default = options.get("default")
        if isinstance(default, _LateFactory):
            options["factory"] = options.pop("default").factory
        elif getattr(type(default), "__module__", "").startswith("attr"):  # NOTHING
            del options["default"]
        return options
    if isinstance(said, _LateFactory):
        return {"factory": said.factory}
    return None if type(said).__module__.partition(".")[0] in ("attr", "attrs") else {"default": said}


if TYPE_CHECKING:
    from attrs import Factory as Factory
    from attrs import define as define
    from attrs import evolve as evolve
    from attrs import field as field
    from attrs import frozen as frozen
    from attrs import frozen as frozen_in_types
else:
    Factory = _LateFactory

    def field(**options: Any) -> Any:
        """As `attrs.field`."""
        return _LateField(options)

    def evolve(record: Any, /, **changes: Any) -> Any:
        """As `attrs.evolve`."""
        unwritten = vars(type(record)).get("__attrs_attrs__")
        if isinstance(unwritten, _Unwritten) and (changed := unwritten.changed(record, changes)) is not None:
            return changed
        import attrs

        return attrs.evolve(record, **changes)

    def define(cls: type | None = None, **options: Any) -> Any:
        """As `attrs.define`."""
        return _declared(cls, options)

    def frozen(cls: type | None = None, **options: Any) -> Any:
        """As `attrs.frozen`."""
        return _declared(cls, {"frozen": True, "on_setattr": None, **options})

    def frozen_in_types(cls: type | None = None, **options: Any) -> Any:
        """As `frozen`, but only mypy sees to it that no field changes: an object whose class refuses assignments takes twice as long to
        make. For what there are very many of, as the nodes of a program's tree."""
        return _declared(cls, {"by_types": True, "unsafe_hash": options.get("eq", True) or None, **options})
