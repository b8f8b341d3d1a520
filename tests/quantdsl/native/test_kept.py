"""Compiled modules in the cache, and back without their HIR."""

import json
import subprocess
import sys
from pathlib import Path

from compiler.backends.native import kept
from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import link_modules
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I64
from runtime.cache.store import CacheStore


def doubling() -> ModuleBuilder:
    program = ModuleBuilder("doubling")
    with program.function("double", {"x": I64}, [I64]) as b:
        (x,) = b.parameters
        b.require(x > 0, x, code="0807", message="{0} is not positive", hint="take another")
        b.ret(x + x)
    return program


def test_a_module_comes_back(tmp_path: Path) -> None:
    store, name = CacheStore(tmp_path), kept.key("program", "text")
    assert kept.found(store, name) is None
    first = kept.keep(store, name, compile_module(doubling().module), {"params": [1, 2]})
    again = kept.found(store, name)
    assert again == first and again.more == {"params": [1, 2]}
    linked = link_modules([again])
    assert linked["double"].run([21]).results == (42,)
    fault = linked["double"].run([0]).fault
    assert fault is not None and (fault.code, fault.values) == ("0807", (0,))
    site = linked.site(fault)
    assert site is not None and (site.message, site.hint) == ("{0} is not positive", "take another")
    overflow = linked["double"].run([2**62]).fault
    assert overflow is not None and overflow.values == (2**62, 2**62)


def test_files_that_it_was_made_of(tmp_path: Path) -> None:
    store, used = CacheStore(tmp_path / "cache"), tmp_path / "used.qdsl"
    used.write_text("one")
    kept.keep(store, "k", compile_module(doubling().module), inputs=[used])
    assert kept.found(store, "k") is not None
    used.write_text("two")
    assert kept.found(store, "k") is None
    used.write_text("one")
    assert kept.found(store, "k") is not None
    used.unlink()
    assert kept.found(store, "k") is None


def test_without_a_store_nothing_is_kept() -> None:
    made = kept.keep(None, "k", compile_module(doubling().module))
    assert kept.found(None, "k") is None and link_modules([made])["double"].run([4]).results == (8,)


def test_an_entry_of_other_facts_is_left_alone(tmp_path: Path) -> None:
    store = CacheStore(tmp_path)
    store.put("k", {"facts": {"name": "m"}, "more": None, "inputs": {}}, b"")
    store.put("l", [], b"")
    assert kept.found(store, "k") is None and kept.found(store, "l") is None


def test_coming_back_loads_little(tmp_path: Path) -> None:
    store = CacheStore(tmp_path)
    kept.keep(store, "k", compile_module(doubling().module))
    script = f"""
import json, sys
from pathlib import Path
from compiler.backends.native import kept
from compiler.backends.native.link import link_modules
from runtime.cache.store import CacheStore
linked = link_modules([kept.found(CacheStore(Path({str(tmp_path)!r})), "k")])
assert linked["double"].run([4]).results == (8,)
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] in ("compiler", "quantdsl", "grammars", "lark"))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not {"lark", "compiler.hir.module", "compiler.hir.core", "compiler.typed_ast.nodes", "compiler.backends.native.emit"} & loaded
    assert len(loaded) < 20, loaded
