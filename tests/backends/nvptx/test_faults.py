"""Checks on a GPU: who writes the record, and what the accesses do then."""

from kernels import compiled, lines

from compiler.backends.llvm.checks import CheckSite
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.gpu import Atomic, GridIndex
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import Mem


def gather(atomic: bool = False) -> HirFunction:
    f = FunctionBuilder("gather", Form.THREAD)
    x = f.parameter("x", Mem("f32", (64,)))
    chosen = f.parameter("chosen", Mem("i64", (256,), readonly=True))
    out = f.parameter("out", Mem("f32", (256,)))
    b = f.body
    b.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    index = b.cast(b.load(chosen, ["t"]), "index")
    b.check(b.inbounds(Affine.of(index.name), 64), index, code="0801", site=3)
    if atomic:
        b.emit(Atomic(operation="add", mem=x, index=(index.name,), value=b.const(1.0)))
    else:
        b.store(out, b.load(x, [index.name]), ["t"])
    function = f.finish()
    function.kernel_info = HirKernelInfo(workgroup=(256, 1, 1))
    return function


def test_a_kernel_with_checks_says_what_they_are() -> None:
    assert compiled(gather()).entry("gather").checks == (CheckSite("0801", 3, ("index",)),)


def test_the_access_that_failed_is_masked() -> None:
    """Between the comparison with the extent and the load there is a branch, or the load is predicated."""
    found = lines(compiled(gather()).text)
    check = found.index("setp.lt.u64 %p, %rd, 64;")
    load = next(n for n, line in enumerate(found) if "ld.global.nc.b32" in line)
    assert check < load
    assert any("bra" in line for line in found[check:load])


def test_an_atomic_that_failed_is_masked() -> None:
    found = lines(compiled(gather(atomic=True)).text)
    place = next(n for n, line in enumerate(found) if line.startswith("red.relaxed.gpu.global.add.f32"))
    assert any(line.startswith("@%p bra") for line in found[:place])


def test_the_record_is_written_under_a_lock() -> None:
    found = lines(compiled(gather()).text)
    lock = found.index("atom.acquire.gpu.global.cas.b32 %r, [%rd], %r, %r;")
    free = found.index("atom.release.gpu.global.exch.b32 %r, [%rd], %r;")
    stores = [n for n, line in enumerate(found) if line == "st.relaxed.gpu.global.u64 [%rd], %rd;"]
    assert len(stores) == 6
    assert all(lock < store < free for store in stores)


def test_a_kernel_without_checks_has_no_code_for_them() -> None:
    f = FunctionBuilder("f", Form.THREAD)
    f.body.store(f.parameter("out", Mem("f32", (1,))), f.body.const(1.0), [0])
    assert "atom" not in compiled(f.finish()).text
