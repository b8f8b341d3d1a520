"""Which targets there are, and that nothing else reaches LLVM, which would abort."""

import pytest
from kernels import compiled, pointwise

from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.diagnostics import ZyntaxError


def refusal(arch: str, ptx: tuple[int, int] | None = None) -> tuple[str, str, str | None]:
    with pytest.raises(ZyntaxError) as raised:
        gpu_target(arch, ptx)
    (diagnostic,) = raised.value.diagnostics
    return diagnostic.code, diagnostic.message, diagnostic.hint


@pytest.mark.parametrize("arch", ["sm_70", "sm_91", "sm_90b", "", "x86", "sm_75 ", "sm_90a+ptx99"])
def test_other_targets_are_refused(arch: str) -> None:
    hint = "targets are sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_120"
    assert refusal(arch) == ("0501", f"there is no GPU target `{arch}`", hint)


@pytest.mark.parametrize(
    ("arch", "ptx", "span"), [("sm_90", (7, 5), "8.0 to 9.0"), ("sm_100a", (8, 5), "8.6 to 9.0"), ("sm_120", (9, 9), "8.7 to 9.0"), ("sm_75", (8, 9), "8.0 to 9.0")]
)
def test_ptx_versions_that_do_not_go_with_the_target_are_refused(arch: str, ptx: tuple[int, int], span: str) -> None:
    assert refusal(arch, ptx) == ("0501", f"PTX {ptx[0]}.{ptx[1]} doesn't go with `{arch}`", f"`{arch}` takes PTX {span}")


@pytest.mark.parametrize("arch", PTX_VERSIONS)
def test_the_ptx_names_its_target_and_version(arch: str) -> None:
    module = compiled(pointwise("f", lambda b, v: b.add(v[0], v[0]), "f32"), arch)
    major, minor = PTX_VERSIONS[arch][0]
    assert f".version {major}.{minor}\n.target {arch}\n.address_size 64\n" in module.text
