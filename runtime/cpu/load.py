"""LLVM at work: text of a module optimised, turned into object code, and linked into this process."""

import ctypes
import itertools
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from runtime import forks
from runtime.cache.digest import sha256
from runtime.cpu import detect
from runtime.records import frozen

_LOCK = forks.quiet_lock()
_NUMBERS = itertools.count()
EXTERNAL: dict[str, Callable[[], int]] = {}
"""Symbols of ours that native code may call, from those who write such code."""
_GENERATED: dict[tuple[bytes, "CodeTarget", str, bool], bytes] = {}
"""Objects by what they are generated from: a program that a process compiles again, as a notebook does, is generated once."""
_OBJECTS = 256
"""How many of them are kept: the latest."""


@frozen
class CodeTarget:
    """What code is made for. `level` is the code generator's, 0 to 3."""

    triple: str
    cpu: str
    features: str
    level: int = 3

    @property
    def is_host(self) -> bool:
        return self == target(None, None, None, self.level)


@cache
def _initialise() -> None:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@cache
def _initialise_all() -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@cache
def target(triple: str | None, cpu: str | None, features: str | None, level: int) -> CodeTarget:
    """A target; what isn't given is this machine's, or a plain processor of another triple."""
    from llvmlite import binding

    if triple is None:
        features = detect.host_features() if features is None else features
        return CodeTarget(binding.get_process_triple(), cpu or detect.host_cpu(), features, level)
    return CodeTarget(triple, cpu or "generic", features or "", level)


@cache
def machine(of: CodeTarget) -> Any:
    """The LLVM target machine."""
    from llvmlite import binding

    is_here = of.triple == binding.get_process_triple()
    if is_here:
        _initialise()
    else:
        _initialise_all()
    target = binding.Target.from_triple(of.triple)
    # code that is linked elsewhere may be near its data, as that of other compilers is
    return target.create_target_machine(cpu=of.cpu, features=of.features, opt=of.level, reloc="pic", codemodel="default", jit=is_here)


def is_of_this_architecture(triple: str) -> bool:
    from llvmlite import binding

    return triple.partition("-")[0] == str(binding.get_process_triple()).partition("-")[0]


def has_code(triple: str) -> bool:
    """Whether LLVM as it is installed makes code for a machine."""
    from llvmlite import binding

    _initialise_all()
    try:
        binding.Target.from_triple(triple)
    except RuntimeError:
        return False
    return True


@cache
def _jit() -> Any:
    from llvmlite import binding

    return binding.create_lljit_compiler(machine(target(None, None, None, 3)), use_jit_link=True)


class CompiledModule:
    """A module on its way from text to machine code; each stage is done when first needed."""

    def __init__(self, text: str, of: CodeTarget, level: str, timings: dict[str, float], explicit: bool = False) -> None:
        self.text, self.target, self.level, self.timings, self.explicit = text, of, level, timings, explicit
        self._module: Any = None
        self._object: bytes | None = None

    @property
    def optimised(self) -> str:
        return str(self._optimise())

    @property
    def assembly(self) -> str:
        with _LOCK:
            return str(machine(self.target).emit_assembly(self._optimise()))

    @property
    def object(self) -> bytes:
        with _LOCK:
            if self._object is None:
                key = sha256(self.text.encode()).digest(), self.target, self.level, self.explicit
                self._object = _GENERATED[key] = _GENERATED.pop(key, b"") or self._generate()
                if len(_GENERATED) > _OBJECTS:
                    del _GENERATED[next(iter(_GENERATED))]
            return self._object

    def _generate(self) -> bytes:
        module = self._optimise()
        started = time.perf_counter()
        code = bytes(machine(self.target).emit_object(module))
        self.timings["generate"] = time.perf_counter() - started
        return code

    def _parse(self) -> Any:
        from llvmlite import binding

        of = machine(self.target)
        started = time.perf_counter()
        module = binding.parse_assembly(self.text)
        module.triple = self.target.triple
        module.data_layout = str(of.target_data)
        module.verify()
        self.timings["parse"] = time.perf_counter() - started
        return module

    def _optimise(self) -> Any:
        with _LOCK:
            if self._module is None:
                module = self._parse()
                started = time.perf_counter()
                optimise(module, self.target, self.level, self.explicit)
                self.timings["optimise"] = time.perf_counter() - started
                self._module = module
            return self._module

    def pass_times(self) -> str:
        """LLVM's table of pass times."""
        with _LOCK:
            module = self._parse()
            return optimise(module, self.target, self.level, self.explicit, report=True)

    def function(self, name: str) -> Any:
        """The entry as a callable of one address. It keeps the code alive."""
        addresses, tracker = self.addresses([name])
        call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(addresses[name])
        # the code goes when its tracker does
        call.tracker = tracker  # type: ignore[attr-defined]
        return call

    def addresses(self, names: Sequence[str], symbols: Mapping[str, int] | None = None) -> tuple[dict[str, int], Any]:
        """Where these functions lie, and what keeps the code alive. `symbols`: addresses that the code refers to by name."""
        from llvmlite import binding

        with _LOCK:
            code = self.object
            started = time.perf_counter()
            builder = binding.JITLibraryBuilder()
            builder.add_object_img(code)
            builder.add_current_process()
            for symbol, address in EXTERNAL.items():
                if f"@{symbol} " in self.text:
                    builder.import_symbol(symbol, address())
            for symbol, known in (symbols or {}).items():
                builder.import_symbol(symbol, known)
            for name in names:
                builder.export_symbol(name)
            tracker = builder.link(_jit(), f"zyntax{next(_NUMBERS)}")
            self.timings["link"] = time.perf_counter() - started
            return {name: tracker[name] for name in names}, tracker


def needed(code: bytes) -> frozenset[str]:
    """The symbols that an ELF object wants from elsewhere."""
    from llvmlite import binding

    sections = {s.name(): s.data() for s in binding.ObjectFileRef.from_data(code).sections()}
    names = sections[b".strtab"]
    libraries: set[str] = set()
    for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", sections[b".symtab"]):
        if name and section == 0:
            libraries.add(names[name : names.index(b"\0", name)].decode())
    return frozenset(libraries)


def is_loaded(name: str) -> bool:
    """Whether the process has a function of C of that name."""
    return hasattr(ctypes.CDLL(None), name)


def link_objects(objects: Sequence[bytes], names: Sequence[str]) -> tuple[dict[str, int], Any]:
    """Bring objects that need each other into this process: where these functions lie, and what keeps the code alive."""
    from llvmlite import binding

    with _LOCK:
        builder = binding.JITLibraryBuilder()
        for code in objects:
            builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(_jit(), f"zyntax{next(_NUMBERS)}")
        return {name: tracker[name] for name in names}, tracker


def link(texts: Sequence[str], code_for: CodeTarget | None = None, internal: Sequence[str] = ()) -> bytes:
    """One object file of several modules, given as optimised IR; None: for this machine. `internal`: functions that nobody else sees."""
    from llvmlite import binding

    made_for = code_for or target(None, None, None, 3)
    of = machine(made_for)
    with _LOCK:
        whole = binding.parse_assembly("")
        whole.triple, whole.data_layout = made_for.triple, str(of.target_data)
        for text in texts:
            whole.link_in(binding.parse_assembly(text))
        for name in internal:
            whole.get_function(name).linkage = "internal"
        return bytes(of.emit_object(whole))


def optimise(module: Any, of: CodeTarget, level: str, explicit: bool = False, report: bool = False) -> str:
    """Run the passes of a level: 0, 1, 2, 3, s, latency or quick. `explicit`: the vectors and the blocking are written out already, so
    that a short list of passes gives the same speed in a tenth of the time. With `report`, LLVM's table of pass times."""
    from llvmlite import binding

    speed = _LEVELS[level]
    options = binding.create_pipeline_tuning_options(speed_level=speed)
    vectors = speed >= 2
    options.loop_vectorization = vectors
    options.slp_vectorization = vectors
    options.loop_interleaving = vectors
    options.loop_unrolling = speed >= 1
    builder = binding.create_pass_builder(machine(of), options)
    if report:
        builder.start_pass_timing()
    if speed == 0 or explicit:
        manager = binding.create_new_module_pass_manager()
        manager.add_always_inliner_pass()
        for name in _EXPLICIT if speed else _QUICK if level == QUICK else ():
            getattr(manager, f"add_{name}_pass")()
    else:
        manager = builder.getModulePassManager()
    manager.run(module, builder)
    return str(builder.finish_pass_timing()) if report else ""


_EXPLICIT = (
    "sroa",
    "simplify_cfg",
    "instruction_combine",
    "loop_rotate",
    "aggressive_dce",
    "new_gvn",
    "simplify_cfg",
    "instruction_combine",
)
QUICK = "quick"
"""The level of code that answers until the code of another one is there: values in registers, and no other pass."""
_QUICK = ("sroa",)
_LEVELS = {QUICK: 0, "0": 0, "1": 1, "2": 2, "3": 3, "s": 2, "latency": 2}
"""Speed levels; that size counts in Os is said by an attribute of each function. For latency O2 is as fast as O3 (`bench.native`,
`bench.replay`), and takes less time to compile."""
