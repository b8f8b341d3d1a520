"""`zyntax run --emit-to FOLDER`: every stage of the kernels that a run launches, a file each. Without it, those of blocks that say
`@trace`, in `out/trace`."""

from pathlib import Path
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.records import define

if TYPE_CHECKING:
    from compiler.driver import Session
    from compiler.launch.recorded import LaunchedKernel

INDEX = "kernels.txt"
MISSING = "0501"
"""The code of stages whose optional package isn't installed."""


TRACE = Path("out") / "trace"


def has_traces(session: "Session") -> bool:
    """Whether a block of the program says `@trace`."""
    from compiler.typed_ast.nodes import Compute
    from compiler.typed_ast.walk import walk

    if "@trace" not in session.source.text:
        return False
    blocks = [part for part in walk(session.program) if isinstance(part, Compute)]
    return any(annotation.name == "trace" for block in blocks for annotation in block.annotations)


@define
class KernelFiles:
    """The files of one run. `session` is set before it begins."""

    folder: Path
    traced: bool = False
    """Whether only blocks with `@trace` leave any."""
    session: "Session | None" = None
    count: int = 0

    def __attrs_post_init__(self) -> None:
        """Raises ZyntaxError (0807) for a folder that can't be written to."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / INDEX).write_text("")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ZyntaxError(Diagnostic("0807", f"`{self.folder}` can't be written to: {reason}")) from None

    def write(self, launched: "LaunchedKernel") -> None:
        """The stages of a kernel that is about to run."""
        from compiler.emit import launched_program
        from compiler.targets.registry import target_named
        from compiler.targets.target import AFTER

        assert self.session is not None
        if self.traced and not (launched.compute.kernel is not None and launched.compute.kernel.trace):
            return
        self.count += 1
        program = launched_program(self.session, launched)
        (kernel,) = program.kernels
        target = target_named(None if launched.machine is None else launched.machine.name)
        line = kernel.position.split(":")[-2]
        name = f"{self.count:02}-line{line}-{target.name}"
        missing = []
        for stage in (*(f"{AFTER}{step}" for step in target.passes), *target.stages):
            try:
                content = target.emitter(program, stage)
            except ZyntaxError as error:
                if any(diagnostic.code != MISSING for diagnostic in error.diagnostics):
                    raise
                missing.append(f"{stage}: {error.diagnostics[0].message}")
                continue
            data = content if isinstance(content, bytes) else (content.rstrip("\n") + "\n").encode("utf-8")
            (self.folder / f"{name}.{stage.replace('=', '-')}").write_bytes(data)
        with (self.folder / INDEX).open("a", encoding="utf-8") as index:
            index.write("\n".join([f"{name}: {kernel.heading}", *(f"  without {reason}" for reason in missing), ""]))
