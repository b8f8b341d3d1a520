"""What names kept code besides the compiler and the machine: all that decides what a program comes to."""

from typing import Any

import pytest
from attrs import evolve

from compiler.hir.parse import parse_function
from compiler.launch.cuda.code import _made_of
from compiler.options import CompileOptions, origin
from compiler.source import Source, Sources
from compiler.typed_ast.levels import OptimizationLevel
from quantdsl.run import open as opening
from quantdsl.run.open import CompileRequest

PLAIN = CompileOptions()
SOURCE = Source("p.zynml", "let x = 1")


def test_options_name_a_kept_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZYNTAX_TUNE", raising=False)
    variants = [
        evolve(PLAIN, device="cpu"),
        evolve(PLAIN, strict=True),
        evolve(PLAIN, threads=2),
        evolve(PLAIN, level=OptimizationLevel.O0),
        evolve(PLAIN, parameters={"n": "1"}),
        evolve(PLAIN, parameters={"n": "2"}),
        evolve(PLAIN, sanitize=True),
        evolve(PLAIN, tune=False),
    ]
    sources = [Source("q.zynml", SOURCE.text), Source(SOURCE.path, "let x = 2")]
    names = {origin(SOURCE, PLAIN), *(origin(SOURCE, one) for one in variants), *(origin(one, PLAIN) for one in sources)}
    assert len(names) == 1 + len(variants) + len(sources)
    same = evolve(PLAIN, parameters={"b": "1", "a": "2"}), evolve(PLAIN, parameters={"a": "2", "b": "1"})
    assert origin(SOURCE, same[0]) == origin(SOURCE, same[1])


def test_wishes_name_a_kept_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(Exception):
        pass

    def stop(*parts: Any) -> str:
        raise Named(parts)

    monkeypatch.setattr(opening.kept, "key", stop)

    def name(source: Source, wishes: CompileRequest) -> Any:
        with pytest.raises(Named) as stopped:
            opening.open_source(source, wishes, Sources(), lambda warning: None, lambda activity: None)
        return stopped.value.args[0]

    wishes = [
        CompileRequest(),
        CompileRequest(strategy="S"),
        CompileRequest(level="0"),
        CompileRequest(settings={"n": "1"}),
        CompileRequest(settings={"n": "2"}),
    ]
    names = {name(SOURCE, one) for one in wishes} | {
        name(Source("q", SOURCE.text), CompileRequest()),
        name(Source(SOURCE.path, ""), CompileRequest()),
    }
    assert len(names) == len(wishes) + 2


NEST = """
func @scaled(%x: mem<Nxf32, readonly>, %out: mem<Nxf32>, %N: index) form=A {{
  for i in 0..N {{
    %a = load %x[i] : f32
    %b = mul %a, %a{} : f32
    %c = add %b, %a{} : f32
    store %out[i], %c
  }}
}}
"""


def test_contraction_names_the_code_of_a_kernel() -> None:
    texts = [_made_of([parse_function(NEST.format(mul, add))], None) for mul in ("", " contract") for add in ("", " contract")]
    assert len({tuple(text) for text in texts}) == 4
    assert _made_of([parse_function(NEST.format("", ""))], SOURCE) not in texts
