"""What lowering makes of a compute block, and what it is told about the block's inputs: the contract between the language
side (checker, tier 0) and the machine side (analysis, schedule, backends, launch).

A block is lowered once per *signature*: dtypes, ranks and layouts of its inputs, and those extents that are known when the
program is compiled. Everything else stays a run-time argument. Affine forms here are over *facts of the launch*: `A.0` is
the extent of tensor input A along axis 0, `A.numel` the number of its elements, a bare name is an int scalar input or a size
solved earlier in `sizes`."""

from collections.abc import Mapping

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.module import HirFunction
from compiler.lowering.result_plan import ResultPlan
from compiler.source import Span
from compiler.typed_ast.declarations import Declarations
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.nodes import Function
from compiler.typed_ast.program_functions import ProgramFunctions
from compiler.typed_ast.types import DType
from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class TensorInput:
    """A tensor that the block reads (or, when `mutable`, updates). `dims` holds an int where the extent is known at compile
    time, a size name where the type declares one, else None. `contiguous`: row-major without gaps; `dense`: the axis
    along which elements lie side by side all the same. `declared`: the span of the
    declaration, for messages."""

    name: str
    dtype: DType
    dims: tuple[int | str | Affine | None, ...] = field(converter=as_tuple)
    contiguous: bool = True
    mutable: bool = False
    captured: bool = False
    span: Span | None = None
    dense: int | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)


@frozen
class ScalarInput:
    """A number passed by value. `value` is set when it is a constant of the compilation."""

    name: str
    dtype: DType
    value: int | float | bool | None = None
    captured: bool = False
    span: Span | None = None


@frozen
class Signature:
    """All that lowering knows of a block's surroundings: its inputs (declared, then captured, in order of first use), the
    functions that its body may call, and sizes that are constants of the compilation."""

    tensors: tuple[TensorInput, ...] = field(default=(), converter=as_tuple)
    scalars: tuple[ScalarInput, ...] = field(default=(), converter=as_tuple)
    functions: Mapping[str, Function] = field(factory=ProgramFunctions, eq=False)
    numbers: tuple[tuple[str, int], ...] = field(default=(), converter=as_tuple)

    @property
    def declared(self) -> Declarations[Function]:
        """The types of the program, and their methods."""
        return self.functions.declared if isinstance(self.functions, ProgramFunctions) else Declarations((Function,))


@frozen
class SizeRule:
    """`name` is `form`, computed at launch in the order of the plan. `words` tell where it comes from."""

    name: str
    form: Affine
    words: str = ""


@frozen
class Equation:
    """Must hold at launch, else the diagnostic (code 0802 unless it says otherwise), whose message may use `{left}` and `{right}`."""

    left: Affine
    right: Affine
    relation: str
    """"==", "<=" or ">="."""
    diagnostic: Diagnostic
    when: tuple[Affine, ...] = field(default=(), converter=as_tuple)
    """Asked only where each of these is above 0: loop extents, without which the access or the reduction doesn't happen."""


@frozen
class TensorArgument:
    """Data pointer of input `name`. `packed`: the kernel runs over it with one index, so it must be given contiguous (a copy where
    it isn't)."""

    name: str
    packed: bool = False


@frozen
class StrideArgument:
    """Stride, in elements, of input `name` along `axis`."""

    name: str
    axis: int


@frozen
class SizeArgument:
    """The value of an affine form over the launch's facts and sizes."""

    form: Affine


@frozen
class ScalarArgument:
    """Scalar input `name` as a `dtype`."""

    name: str
    dtype: DType


@frozen
class ResultArgument:
    """Data pointer of result number `index`, freshly allocated, contiguous."""

    index: int


@frozen
class WorkspaceArgument:
    """Data pointer of scratch memory: `dims` elements of `dtype`, undefined at the start."""

    dtype: str
    dims: tuple[Affine, ...] = field(converter=as_tuple)


KernelArgument = TensorArgument | StrideArgument | SizeArgument | ScalarArgument | ResultArgument | WorkspaceArgument


@frozen
class LaunchPlan:
    sizes: tuple[SizeRule, ...] = field(default=(), converter=as_tuple)
    equations: tuple[Equation, ...] = field(default=(), converter=as_tuple)
    arguments: tuple[KernelArgument, ...] = field(default=(), converter=as_tuple)
    """One for each parameter of the function, in order."""
    results: tuple[ResultPlan, ...] = field(default=(), converter=as_tuple)
    work: tuple[tuple[Affine, ...], ...] = field(default=(), converter=as_tuple)
    """Extents of each nest of loops: the sum of their products is a rough count of inner steps, to decide on threads and progress."""


@frozen
class NumbersWanted:
    """Names of sizes and ints that make indices of a block affine once they are numbers, and how a launch finds sizes."""

    names: tuple[str, ...] = field(default=(), converter=as_tuple)
    sizes: tuple[SizeRule, ...] = field(default=(), converter=as_tuple)


class NeedsNumbers(ZyntaxError):
    """A block that can't be lowered before these names are numbers; its errors are those that it has without."""

    def __init__(self, wanted: NumbersWanted, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.wanted = wanted


@frozen
class LoweredKernel:
    """A compute block as a function in nest form. `kind` is what `@kernel` promised, None when it is to be inferred. `warnings` are
    06xx. `wanted`: the numbers with which a launch gets a better kernel."""

    function: HirFunction
    plan: LaunchPlan
    kind: KernelType | None
    metadata: KernelMetadata
    warnings: tuple[Diagnostic, ...] = field(default=(), converter=as_tuple)
    signature: Signature = Signature()
    """What it was lowered for."""
    wanted: NumbersWanted = NumbersWanted()
