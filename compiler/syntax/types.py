"""Actions for types as written, and for the dims of tensor types, which are half type and half expression."""

from compiler.source import Span
from compiler.syntax.base import Actions, present
from compiler.typed_ast import nodes
from grammars.faults import Token

_TENSORS = ("tensor", "Tensor")
_DTYPES = frozenset(
    [
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "f8e4m3",
        "f8e5m2",
        "f16",
        "bf16",
        "f32",
        "f64",
        "bool",
        "int",
        "float",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ]
)


class TypeActions(Actions):
    def named_type(self, start: int, end: int, *names: Token) -> nodes.TypeSyntax:
        name = "::".join(token.text for token in names)
        if name in _TENSORS:
            return nodes.TensorTypeSyntax(span=self.span(start, end))
        return nodes.NamedTypeSyntax(name=name, span=self.span(start, end))

    def generic_type(self, start: int, end: int, *parts: Token | nodes.TypeSyntax) -> nodes.TypeSyntax:
        name = "::".join(part.text for part in parts if isinstance(part, Token))
        return nodes.NamedTypeSyntax(
            name=name, arguments=tuple(part for part in parts if isinstance(part, nodes.TypeSyntax)), span=self.span(start, end)
        )

    def bracket_type(self, start: int, end: int, *parts: Token | nodes.Node) -> nodes.TypeSyntax:
        name = "::".join(part.text for part in parts if isinstance(part, Token))
        items = [part for part in parts if isinstance(part, nodes.Node)]
        if name in _TENSORS:
            dims, dtype = self.dims_and_dtype(items)
            return nodes.TensorTypeSyntax(dims=dims, dtype=dtype, span=self.span(start, end))
        return nodes.NamedTypeSyntax(name=name, arguments=tuple(self._as_type(item) for item in items), span=self.span(start, end))

    def dims_and_dtype(self, items: list[nodes.Node]) -> tuple[tuple[nodes.Dim, ...], nodes.TypeSyntax | None]:
        """The dims of a tensor type, and its dtype where the last item is the name of one."""
        dtype = None
        if items and isinstance(items[-1], nodes.TypeSyntax):
            last = items[-1]
            if not isinstance(last, nodes.NamedTypeSyntax) or last.arguments or last.name in _DTYPES:
                dtype = last
                items = items[:-1]
        return tuple(self._as_dim(item) for item in items), dtype

    def _as_dim(self, item: nodes.Node) -> nodes.Dim:
        if isinstance(item, nodes.Dim):
            return item
        return nodes.Dim(value=self.as_value(item), span=item.span)

    def as_value(self, item: nodes.Node) -> nodes.Expression:
        """A name that was read as a type, as the expression it is in a dim."""
        if isinstance(item, nodes.Expression):
            return item
        if isinstance(item, nodes.NamedTypeSyntax) and not item.arguments:
            return nodes.Name(name=item.name, span=item.span)
        self.fault_at(
            "0101", f"expected a size, but `{self.written(item)}` is a type", item, "a size is a number, a name, or a sum like `2*N + 1`"
        )
        return nodes.Name(name="_", span=item.span)

    def _as_type(self, item: nodes.Node) -> nodes.TypeSyntax:
        if isinstance(item, nodes.TypeSyntax):
            return item
        self.fault_at("0101", f"expected a type, but `{self.written(item)}` is a size", item, "only `tensor[...]` takes sizes")
        return nodes.NamedTypeSyntax(name="_", span=item.span)

    def any_dim(self, start: int, end: int) -> nodes.Dim:
        return nodes.Dim(span=self.span(start, end))

    def bounded_dim(self, start: int, end: int, _at_most: Token, number: Token) -> nodes.Dim:
        text = number.text.replace("_", "")
        if not text.isdigit() or len(text) > 18:
            self.fault("0106", f"`{number.text}` is no bound of a size", number.start, number.end, "write a whole number, as in `?<=4096`")
            return nodes.Dim(span=self.span(start, end))
        return nodes.Dim(bound=int(text), span=self.span(start, end))

    def dim_group(self, start: int, end: int, *items: nodes.Node | None) -> nodes.Node:
        dims = present(items)
        return (
            dims[0]
            if len(dims) == 1
            else nodes.TupleTypeSyntax(elements=tuple(self._as_type(item) for item in dims), span=self.span(start, end))
        )

    def dim_function(self, start: int, end: int, *items: nodes.Node | None) -> nodes.TypeSyntax:
        *parameters, result = present(items)
        return nodes.FunctionTypeSyntax(
            parameters=tuple(self._as_type(item) for item in parameters), result=result, span=self.span(start, end)
        )

    def placed_type(self, start: int, end: int, placed: nodes.TypeSyntax, device: Token) -> nodes.TypeSyntax:
        span = self.span(start, end)
        if not isinstance(placed, nodes.TensorTypeSyntax):
            self.fault_at("0101", f"only a tensor has a place, and `{self.written(placed)}` is none", placed, "remove `on ...`")
            return placed
        return nodes.TensorTypeSyntax(dims=placed.dims, dtype=placed.dtype, device=self.text[device.start + 1 : device.end - 1], span=span)

    def option_type(self, start: int, end: int, value: nodes.TypeSyntax) -> nodes.TypeSyntax:
        return nodes.OptionTypeSyntax(value=value, span=self.span(start, end))

    def array_type(self, start: int, end: int, element: nodes.TypeSyntax, size: nodes.Node) -> nodes.TypeSyntax:
        return nodes.ArrayTypeSyntax(element=element, size=self.as_value(size), span=self.span(start, end))

    def tuple_type(self, start: int, end: int, *elements: nodes.TypeSyntax) -> nodes.TypeSyntax:
        if len(elements) == 1 and self.text[elements[0].span.end - self.offset : end].count(",") == 0:
            return elements[0]
        return nodes.TupleTypeSyntax(elements=elements, span=self.span(start, end))

    def function_type(self, start: int, end: int, *types: nodes.TypeSyntax) -> nodes.TypeSyntax:
        return nodes.FunctionTypeSyntax(parameters=types[:-1], result=types[-1], span=self.span(start, end))

    def record_type(self, start: int, end: int, *fields: nodes.Parameter) -> nodes.TypeSyntax:
        return nodes.RecordTypeSyntax(fields=present(fields), span=self.span(start, end))

    def type_field(self, start: int, end: int, name: Token, annotation: nodes.TypeSyntax) -> nodes.Parameter:
        return nodes.Parameter(name=name.text, annotation=annotation, span=self.span(start, end))

    def type_parameter(self, start: int, end: int, name: Token, bounds: tuple[nodes.TypeSyntax, ...] | None) -> nodes.TypeParameter:
        return nodes.TypeParameter(name=name.text, bounds=bounds or (), span=self.span(start, end))

    def bounds(self, start: int, end: int, *types: nodes.TypeSyntax | Token) -> tuple[nodes.TypeSyntax, ...]:
        return tuple(bound for bound in types if isinstance(bound, nodes.TypeSyntax))

    def generics(self, start: int, end: int, *parameters: nodes.TypeParameter) -> tuple[nodes.TypeParameter, ...]:
        return parameters

    def where_clause(self, start: int, end: int, *parameters: nodes.TypeParameter) -> tuple[nodes.TypeParameter, ...]:
        return parameters

    def size_expressions(self, items: list[nodes.Node]) -> tuple[tuple[nodes.Expression, ...], nodes.TypeSyntax | None]:
        """The extents and dtype of `shared var buf[F, f32]`."""
        dims, dtype = self.dims_and_dtype(items)
        for dim in dims:
            if dim.value is None:
                self.fault_at("0101", "expected a size: shared memory has no dynamic extent", dim, "write a number or a size name")
        return tuple(dim.value for dim in dims if dim.value is not None), dtype

    def path_span(self, names: tuple[Token, ...]) -> Span:
        return self.span(names[0].start, names[-1].end)
