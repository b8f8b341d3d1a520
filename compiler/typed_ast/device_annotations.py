"""`@device` and `@parallel` of a compute block: one device, or several that share the work. Whether they are here is asked when the program
starts, and whether the body can be split is analysis' business."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from compiler.typed_ast.annotation_arguments import BLOCK_ANNOTATIONS, ArgumentReader, span_of_argument
from compiler.typed_ast.kernel import DataParallel
from compiler.typed_ast.nodes import Annotation, Expression, ListLiteral, Name
from compiler.typed_ast.resolve_types import parse_device
from compiler.typed_ast.types import AUTO, DeviceTarget
from runtime.records import define

_BOTH = '`@device(["cuda:0", "cuda:1"]) @parallel(data)`'


@define
class DeviceReader(ArgumentReader):
    """`listed`: the devices of a list; `axis`: what `@parallel` splits."""

    listed: tuple[DeviceTarget, ...] | None = None
    axis: int = 0

    def device(self, annotation: Annotation) -> None:
        targets = [a for a in annotation.arguments if a.name is None]
        for argument in annotation.arguments:
            if argument.name not in (None, "fallback"):
                self.count(annotation, f"has no parameter `{argument.name}`", span_of_argument(argument))
                return
        if len(targets) != 1:
            self.count(annotation, f"takes 1 device, but {len(targets)} are given")
            return
        target = targets[0].value
        if isinstance(target, ListLiteral):
            self.listed = tuple(self.devices_of(target))
        else:
            device = self.one_device(target)
            if device is not None:
                self.set(device=device)
        for argument in annotation.arguments:
            if argument.name == "fallback":
                fallback = self.one_device(argument.value)
                if fallback is not None:
                    self.set(fallback=fallback)

    def devices_of(self, target: ListLiteral) -> Iterator[DeviceTarget]:
        """The devices of a list, those that are right."""
        if not target.elements:
            self.fault("0204", "the list of devices is empty", target.span, 'name at least one: `["cuda:0", "cuda:1"]`')
        spans: dict[DeviceTarget, Span] = {}
        for element in target.elements:
            device = self.one_device(element)
            if device is None:
                continue
            if device == AUTO:
                hint = 'name each of them, as in `["cuda:0", "cuda:1"]`, or let `@device("auto")` choose one'
                self.fault("0402", '`"auto"` in a list of devices names none', element.span, hint)
            elif device in spans:
                others = (Label(spans[device], "first named here"),)
                self.fault("0402", f"`{device}` is in the list twice", element.span, "name each device once", others)
            else:
                spans[device] = element.span
                yield device

    def one_device(self, value: Expression) -> DeviceTarget | None:
        text = self.evaluate(value)
        if not isinstance(text, str):
            hint = f'write `"{value.name}"`' if isinstance(value, Name) else 'such as "cpu" or "auto"'
            self.wrong(value, "a device", "a string", hint)
            return None
        device = parse_device(text, value.span)
        if isinstance(device, Diagnostic):
            self.found.append(device)
            return None
        return device

    def parallel(self, annotation: Annotation) -> None:
        """`@parallel(data, axis=0)` of a block."""
        how, *others = annotation.arguments
        form = f"its form is `{BLOCK_ANNOTATIONS['parallel']}`"
        if how.name is not None or not isinstance(how.value, Name) or how.value.name not in ("data", "model"):
            self.fault("0204", "`@parallel` of a block begins with `data`", span_of_argument(how), form)
        elif how.value.name == "model":
            self.later("`@parallel(model)`", annotation.span, "`@parallel(data)` gives each device a range of the results")
        for number, argument in enumerate(others):
            if argument.name not in (None, "axis") or number > 0:
                words = f"has no parameter `{argument.name}`" if argument.name not in (None, "axis") else "has `axis` twice"
                self.fault("0204", f"`@parallel` {words}", span_of_argument(argument), form)
                return
            self.axis = self.positive(argument.value, "`axis` of `@parallel`", 0) or 0

    def several_devices(self, device: Annotation | None, parallel: Annotation | None) -> None:
        """Whether `@device` and `@parallel` go together, once both are read."""
        if parallel is not None and not parallel.arguments:
            return  # it is misplaced, which was said
        if self.listed is not None and device is not None and parallel is None:
            hint = "add `@parallel(data)`, by which each device computes a range of the results"
            self.fault("0402", "a list of devices stands without `@parallel`", device.span, hint)
        elif parallel is not None and self.listed is None:
            labels = () if device is None else (Label(device.span, "this is no list"),)
            self.fault("0402", "`@parallel(data)` stands without a list of devices", parallel.span, f"write {_BOTH}", labels)
        elif parallel is not None and self.listed:
            self.set(parallel=DataParallel(self.listed, self.axis, parallel.span))
