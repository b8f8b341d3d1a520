"""Classes of fields, declared as with `attrs` (`from attrs import Factory, evolve, field` go with them). What attrs writes for a class, its
`__init__`, its comparison, its text, is written when the class is first used: that takes longer than all else of an import, and a program
meets a third of the classes that it imports."""

from typing import TYPE_CHECKING, Any

from runtime.forks import quiet_lock

__all__ = ["define", "frozen", "frozen_in_types"]

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
                self.write()
                type(record).__init__(record, *arguments, **named)

            cls.__init__ = first  # type: ignore[misc]
        if "__getstate__" not in own and "__reduce__" not in own:
            cls.__getstate__, cls.__setstate__ = _state, _restore  # type: ignore[assignment, attr-defined, method-assign]

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
                    plain: dict[str, Any] = {"on_setattr": attrs.setters.NO_OP} if "unsafe_hash" in unwritten.options else {}
                    attrs.define(cls, slots=False, **plain, **unwritten.options)


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


if TYPE_CHECKING:
    from attrs import define as define
    from attrs import frozen as frozen
    from attrs import frozen as frozen_in_types
else:

    def define(cls: type | None = None, **options: Any) -> Any:
        """As `attrs.define`."""
        return _declared(cls, options)

    def frozen(cls: type | None = None, **options: Any) -> Any:
        """As `attrs.frozen`."""
        return _declared(cls, {"frozen": True, "on_setattr": None, **options})

    def frozen_in_types(cls: type | None = None, **options: Any) -> Any:
        """As `frozen`, but only mypy sees to it that no field changes: an object whose class refuses assignments takes twice as long to
        make. For what there are very many of, as the nodes of a program's tree."""
        return _declared(cls, {"unsafe_hash": options.get("eq", True) or None, **options})
