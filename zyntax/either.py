"""`zyntax.compile`: a program of either language, by what its file is called."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantdsl import Program
    from zynml import CompiledProgram


def compile(source: str | Path, **options: Any) -> "CompiledProgram | Program":
    """Compile a program. A `.qdsl` file goes to `quantdsl.compile`, any other file, and a program's text, to `zynml.compile`; `options`
    are theirs. The text of a QuantDSL program is for `zyntax.quantdsl.compile`."""
    if Path(source).suffix == ".qdsl" and "\n" not in str(source):
        import quantdsl

        return quantdsl.compile(source, **options)
    import zynml

    return zynml.compile(source, **options)
