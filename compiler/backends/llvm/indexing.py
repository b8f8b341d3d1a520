"""The indices of loads and stores as addresses: what is the same everywhere is computed once, the lanes of the simd axis are a
step apart, or scattered where an index is a value with axes of its own."""

from collections.abc import Sequence

from compiler.backends.llvm.frame import AddressedMemory, FunctionFrame
from compiler.backends.llvm.types import I64, memory_type
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.types import Mem
from runtime.records import define


def strides_of(frame: FunctionFrame, mem: Mem) -> list[LlvmValue]:
    """Elements between neighbours along each dimension."""
    if mem.strides is not None:
        return [frame.affine(stride) for stride in mem.strides]
    strides = [constant(I64, 1)]
    for dim in reversed(mem.dims[1:]):
        strides.insert(0, frame.w.mul(strides[0], frame.affine(dim)))
    return strides[: mem.rank]


@define
class Address:
    """Where an access goes at one point: a scalar address with the lanes `step` elements apart (None: all at the same place),
    or a vector of addresses."""

    pointer: LlvmValue
    step: LlvmValue | None


class Indexing:
    """The indices of one load or store, taken apart: what is the same everywhere is computed once."""

    def __init__(self, frame: FunctionFrame, memory: AddressedMemory, index: Sequence[Affine], simd: str | None, lanes: int) -> None:
        self.frame, self.memory, self.index, self.simd, self.lanes = frame, memory, index, simd, lanes
        self.element = memory_type(memory.type.dtype)
        self.strides = strides_of(frame, memory.type)
        w = frame.w
        self.steps: dict[str, LlvmValue] = {}
        self.varying: list[tuple[Affine, LlvmValue]] = []
        base = constant(I64, 0)
        for form, stride in zip(index, self.strides, strict=True):
            direct = [symbol for symbol, _ in form.terms if isinstance(symbol, str) and frame.is_axis(symbol)]
            for axis in direct:
                step = w.mul(stride, constant(I64, form.coefficient(axis)))
                self.steps[axis] = w.add(self.steps[axis], step) if axis in self.steps else step
            rest = form.without(*direct)
            if self._varies(rest):
                self.varying.append((rest, stride))
            else:
                base = w.add(base, w.mul(frame.affine(rest), stride))
        self.base = w.offset(memory.pointer, base, self.element)

    def _varies(self, form: Affine) -> bool:
        for name in form.names:
            if self.frame.is_axis(name):
                return True
            bundle = self.frame.values.get(name)
            if bundle is not None and (bundle.axes or bundle.lanes):
                return True
        return False

    def lane_numbers(self, axis: str) -> LlvmValue:
        assert axis == self.simd, f"{axis} isn't the vector axis of this access"
        return self.frame.w.lane_numbers(self.lanes)

    def form_at(self, number: int, point: dict[str, int]) -> LlvmValue:
        """Index number `number` at a point, a vector where it differs between lanes."""
        return self.frame.affine(self.index[number], point, self.lane_numbers)

    def at(self, point: dict[str, int]) -> Address:
        w = self.frame.w
        offset = constant(I64, 0)
        for axis, step in self.steps.items():
            if axis != self.simd:
                offset = w.add(offset, w.mul(step, constant(I64, point[axis])))
        for form, stride in self.varying:
            offset = w.add(offset, w.mul(self.frame.affine(form, point, self.lane_numbers), stride))
        apart = self.steps.get(self.simd) if self.simd else None
        if offset.type.lanes:
            if apart is not None:
                offset = w.add(offset, w.mul(w.lane_numbers(self.lanes), apart))
            return Address(w.offset(self.base, offset, self.element), None)
        return Address(w.offset(self.base, offset, self.element), apart)

    def scattered(self, address: Address) -> LlvmValue:
        """The address of each lane."""
        if address.pointer.type.lanes:
            return address.pointer
        w = self.frame.w
        assert address.step is not None
        return w.offset(address.pointer, w.mul(w.lane_numbers(self.lanes), address.step), self.element)

    def inside(self, point: dict[str, int]) -> LlvmValue | None:
        """Whether all indices are in bounds; None when that is plain."""
        w = self.frame.w
        all_inside: LlvmValue | None = None
        for number, dim in enumerate(self.memory.type.dims):
            index = self.form_at(number, point)
            extent = self.frame.affine(dim)
            if index.number is not None and extent.number is not None and not index.type.lanes and 0 <= index.number < extent.number:
                continue
            all_inside = w.both(all_inside, w.compare("ult", index, extent))
        return all_inside
