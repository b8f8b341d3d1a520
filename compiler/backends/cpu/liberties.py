"""What LLVM may change of floats in a kernel for the CPU. Where vectors are written out, nothing: products are fused with their sums here,
and sums are in the order of the code, so that the bits are those of the kernel whatever passes run. Where LLVM makes the vectors, in
innermost loops of numbers, it may also fuse and reorder what the program lets it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.bundle import build, is_simd
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.writer import LlvmValue
from compiler.hir.control import For, While
from compiler.hir.core import Binary, dtype_of
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, is_float
from runtime.records import frozen


@frozen(eq=False)
class FusedSum:
    """`x * y + z`, rounded once, for the result of a sum or a difference. Its product is computed nowhere else."""

    x: Value
    y: Value
    z: Value
    negates_product: bool = False
    negates_rest: bool = False


def has_vectors(loop: Instruction) -> bool:
    """Whether it works on values with a vector axis, or on the few elements that such loops leave over."""
    if isinstance(loop, For) and loop.mark("nounroll"):
        return True
    types = [result.type for op in loop.walk() for result in op.results]
    return any(is_simd(name) for type in types if isinstance(type, Tile) for name in type.axis_names)


def left_to_llvm(loop: Instruction) -> bool:
    """Whether it is an innermost loop without vectors."""
    return not has_vectors(loop) and not any(isinstance(op, For | While) for op in loop.walk() if op is not loop)


def leaves_liberties(function: HirFunction) -> bool:
    """Whether LLVM may fuse or reorder anything: a product and a sum, or two sums, of one turn, or of turns and loops that hand values on.
    Where a bias is added to sums that lie in memory, there is nothing to do either with."""
    written, read = set[str](), set[str]()
    for loop in (op for top in function.body.body for op in top.walk() if isinstance(op, For | While) and left_to_llvm(op)):
        inside = [*loop.walk()]
        flags = [(op.operator, op.flags) for op in inside if isinstance(op, Binary) and op.flags and is_float(dtype_of(op.result))]
        reordered = sum("reassoc" in known for _, known in flags)
        if len({operator in ("add", "sub") for operator, known in flags if "contract" in known}) == 2:
            return True
        if reordered > 1 or (reordered and (isinstance(loop, While) or loop.carried)):
            return True
        if flags:
            written |= _memories(inside, Effect.WRITE)
            read |= _memories(inside, Effect.READ)
    return not written.isdisjoint(read)


def _memories(ops: Sequence[Instruction], effect: Effect) -> set[str]:
    return {value.name for op in ops if effect in op.effects for value in op.operand_values if isinstance(value.type, Mem)}


def fused_sums(function: HirFunction) -> tuple[Mapping[int, FusedSum], frozenset[int]]:
    """The sums with a product that is theirs alone, both of which the program lets be rounded once, and stand in one block; by the
    identity of the sum. And the identities of those products."""
    uses = Counter(value.name for top in function.body.body for op in top.walk() for value in op.operand_values)
    sums: dict[int, FusedSum] = {}
    products: set[int] = set()
    for block in _blocks(function.body.body):
        made: dict[str, Binary] = {}
        for op in block:
            if not (isinstance(op, Binary) and "contract" in op.flags and dtype_of(op.result) in ("f32", "f64")):
                continue
            if op.operator == "mul" and uses[op.result.name] == 1:
                made[op.result.name] = op
            elif op.operator in ("add", "sub"):
                left, right = op.operand_values
                is_difference = op.operator == "sub"
                if (product := made.pop(left.name, None)) is not None:
                    sums[id(op)] = FusedSum(product.left, product.right, right, negates_rest=is_difference)
                elif (product := made.pop(right.name, None)) is not None:
                    sums[id(op)] = FusedSum(product.left, product.right, left, negates_product=is_difference)
                else:
                    continue
                products.add(id(product))
    return sums, frozenset(products)


def _blocks(body: Sequence[Instruction]) -> Iterator[Sequence[Instruction]]:
    """All blocks but those of loops that are left to LLVM."""
    yield body
    for op in body:
        if not (isinstance(op, For | While) and left_to_llvm(op)):
            for region in op.regions:
                yield from _blocks(region.body)


def emit_fused(frame: FunctionFrame, op: Binary, fused: FusedSum) -> None:
    w, dtype = frame.w, dtype_of(op.result)
    x, y, z = (frame.values[value.name] for value in (fused.x, fused.y, fused.z))

    def at(point: dict[str, int]) -> LlvmValue:
        factor, rest = x.at(point), z.at(point)
        if fused.negates_product:
            factor = arithmetic.unary(w, "neg", dtype, factor)
        if fused.negates_rest:
            rest = arithmetic.unary(w, "neg", dtype, rest)
        return arithmetic.fma(w, dtype, factor, y.at(point), rest)

    type = op.result.type
    assert isinstance(type, Tile)
    frame.define(op, build(w, type, at))
