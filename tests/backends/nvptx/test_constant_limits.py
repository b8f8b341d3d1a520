"""No minimum or maximum of 16 bits has a constant: an assembler of NVIDIA's makes it one instruction with a comparison, a wrong one."""

import re
from pathlib import Path

import pytest

from compiler.backends.nvptx.constant_limits import in_32_bits
from zyntax.main import cli

VALUES = (0, 1, 62, 63, 64, 32767, 32768, 65472, 65535)

STENCIL = """
def f(x: tensor[A, B, C, f64]) {
    compute(x) {
        for i in 0..A, j in 0..B, k in 0..C:
            var s = 0.5 * x[i, j, k]
            if k > 0:
                s += 0.2 * x[i, j, k - 1]
            if k < C - 1:
                s += 0.3 * x[i, j, k + 1]
            out[i, j, k] = s
    }
}
"""


def run(text: str, first: int, second: int) -> int:
    """What the instructions leave in `%rs3`, where `%rs1` and `%rs2` are these."""
    held = {"%rs1": first, "%rs2": second}

    def signed(number: int, bits: int) -> int:
        return (number & (1 << bits) - 1) - (1 << bits if number >> bits - 1 & 1 else 0)

    def of(word: str) -> int:
        return held[word] if word.startswith("%") else int(word)

    for name, rest in re.findall(r"^\s*((?:cvt|mov|min|max)\S*)\s+([^;]*);", text, re.M):
        to, *operands = [word.strip() for word in rest.split(",")]
        operation, *kinds = name.split(".")
        bits = int(kinds[-1][1:])
        given = [signed(of(word), bits) if kinds[-1][0] == "s" else of(word) & (1 << bits) - 1 for word in operands]
        found = {"min": min, "max": max, "cvt": lambda a: a, "mov": lambda a: a}[operation](*given)
        held[to] = found & (1 << int(kinds[0][1:])) - 1
    return held["%rs3"]


@pytest.mark.parametrize("operator", ["min", "max"])
@pytest.mark.parametrize(("kind", "constant"), [("u16", 63), ("u16", 65535), ("u16", -1), ("s16", 63), ("s16", -64)])
def test_the_result_stays(operator: str, kind: str, constant: int) -> None:
    written = in_32_bits(f"\t{operator}.{kind} \t%rs3, %rs1, {constant};\n")
    assert f"{operator}.{kind}" not in written
    for value in VALUES:
        a, b = value & 0xFFFF, constant & 0xFFFF
        if kind == "s16":
            a, b = (number - 0x10000 if number & 0x8000 else number for number in (a, b))
        wanted = {"min": min, "max": max}[operator](a, b) & 0xFFFF
        assert run(written, value, 0) == wanted, value


def test_a_constant_in_a_register_is_one() -> None:
    written = in_32_bits("\tmov.b16 \t%rs2, 63;\n\tmin.u16 \t%rs3, %rs1, %rs2;\n")
    assert "min.u16" not in written
    assert [run(written, value, 63) for value in VALUES] == [min(value, 63) for value in VALUES]


def test_two_variables_stay() -> None:
    assert in_32_bits("\tmax.s16 \t%rs3, %rs1, %rs2;\n") == "\tmax.s16 \t%rs3, %rs1, %rs2;\n"


def test_the_last_tile_of_a_window_compares_in_32_bits(tmp_path: Path) -> None:
    program, ptx = tmp_path / "stencil.zynml", tmp_path / "stencil.ptx"
    program.write_text(STENCIL)
    options = ["--backend", "nvptx", "--target", "sm_90a", "--emit", "ptx", "--like", "x=331x199x67:f64", "-o", str(ptx)]
    cli.main(["compile", str(program), *options], standalone_mode=False)
    text = ptx.read_text()
    assert not re.search(r"\b(min|max)\.[us]16\s+%\w+, %\w+, -?\d+;", text)
