"""Functions that take functions run natively where a call names its own."""

from pathlib import Path

import pytest

import zynml

FOLD = """
def fold(f: (int, int) => int, n: int): int {
    mut value = 0
    for i in 0..n { value = f(value, i) }
    value
}
def twice(a: int, b: int): int { a + 2 * b }
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("fold((a, b) => a + b, n)", 45),
        ("fold(twice, n)", 90),
        ("fold((a, b) => a + n, n)", 100),
        ("fold((a, b) => fold(twice, 3), n)", 6),
        ("fold((a, b) => if b > 4 { a + 1 } else { a }, n)", 5),
    ],
)
def test_the_value_is_that_of_the_lambda(call: str, expected: int) -> None:
    program = zynml.compile(FOLD + f"def run(n: int): int {{ {call} }}\n")
    assert program.functions["run"](10) == expected
    assert sorted(program.functions) == ["fold", "run", "twice"]


def test_a_function_of_its_own_is_native(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from zyntax.main import main

    path = tmp_path / "fold.zynml"
    path.write_text(FOLD + "println(fold((a, b) => a + b, 10), fold((a, b) => a + [b][0], 10))\n")
    with pytest.raises(SystemExit):
        main(["explain", str(path)])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "fold·1 native" in lines
    assert not any(line.startswith("fold·2") for line in lines)
