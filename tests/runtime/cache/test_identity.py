"""The compiler's identity in the names of kept code: by contents, wherever they lie and whenever they were written."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from compiler.backends.native import kept
from runtime.cache import identity
from runtime.cache.contents import PACKAGES, WRITTEN, hash_of, source_files
from runtime.cache.store import CacheStore, store
from runtime.cpu import detect

SETTLED = 1 << 62
"""A time at which every file was changed long ago."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CacheStore:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ZYNTAX_CACHE", raising=False)
    found = store()
    assert found is not None
    return found


def checkout(root: Path) -> Path:
    """A folder with a file in each package; gives the compiler's."""
    for package in PACKAGES:
        (root / package).mkdir(parents=True)
        (root / package / "a.py").write_text(package, encoding="utf-8")
    (root / "quantdsl" / "std").mkdir()
    (root / "quantdsl" / "std" / "risk.qdsl").write_text("fn f() {}", encoding="utf-8")
    return root / "compiler" / "a.py"


def contents(root: Path) -> str:
    return hash_of(source_files(root))


def test_the_hash_is_of_contents_alone(tmp_path: Path) -> None:
    source = checkout(tmp_path / "one")
    first = contents(tmp_path / "one")
    os.utime(source, (1, 1))
    (source.parent / "note.txt").write_text("no source", encoding="utf-8")
    shutil.copytree(tmp_path / "one", tmp_path / "elsewhere" / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "elsewhere" / "two") == first


@pytest.mark.parametrize("change", ["a letter", "a name", "a new file", "a file less", "QuantDSL", "moved over a border"])
def test_every_change_of_contents_is_another_hash(tmp_path: Path, change: str) -> None:
    source = checkout(tmp_path)
    first, about = contents(tmp_path), source.stat()
    match change:
        case "a letter":
            source.write_text("Compiler", encoding="utf-8")
        case "a name":
            source.rename(source.with_name("b.py"))
        case "a new file":
            source.with_name("b.py").write_text("", encoding="utf-8")
        case "a file less":
            source.unlink()
        case "QuantDSL":
            (tmp_path / "quantdsl" / "std" / "risk.qdsl").write_text("fn g() {}", encoding="utf-8")
        case _:
            source.write_text("", encoding="utf-8")
            (tmp_path / "grammars" / "a.py").write_text("compilergrammars", encoding="utf-8")
    if source.exists():
        os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert contents(tmp_path) != first


def test_the_tree_itself_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All packages but the command, with the tables of the grammars and the libraries in QuantDSL."""
    names = {file.name for file in source_files(Path(identity.__file__).parents[2])}
    assert {"compiler/passes/pipelines.py", "grammars/zynml.lark", "quantdsl/std/risk.qdsl", "runtime/tensor.py", "zynml/api.py"} <= names
    assert not any(name.startswith("zyntax/") or "__pycache__" in name for name in names)


def test_a_hash_is_remembered_until_a_file_changes(tmp_path: Path, cache: CacheStore, monkeypatch: pytest.MonkeyPatch) -> None:
    source = checkout(tmp_path)
    computed: list[int] = []

    def counting(files: object) -> str:
        computed.append(1)
        return hash_of(files)  # type: ignore[arg-type]

    monkeypatch.setattr(identity, "hash_of", counting)

    def remembered() -> str:
        return identity.remembered_hash(source_files(tmp_path), SETTLED)

    first = remembered()
    assert remembered() == first == contents(tmp_path) and len(computed) == 1
    about = source.stat()
    source.write_text("Compiler", encoding="utf-8")  # as long as it was
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))  # and as old as it was
    second = remembered()
    assert second == contents(tmp_path) != first and len(computed) == 2, "the system's own time of the change counts too"
    shutil.copy2(source, tmp_path / "copy")
    (tmp_path / "copy").replace(source)
    assert remembered() == second and len(computed) == 3, "another inode is read, and holds the same"


def test_files_that_changed_just_now_are_not_remembered(tmp_path: Path, cache: CacheStore) -> None:
    checkout(tmp_path)
    files = source_files(tmp_path)
    changed = max(file.changed for file in files)
    assert identity.remembered_hash(files, changed + 1_000_000_000) == contents(tmp_path)
    assert not cache.folder.exists()
    identity.remembered_hash(files, changed + 3_000_000_000)
    assert len([*cache.folder.iterdir()]) == 1


@pytest.mark.parametrize("trouble", ["off", "no folder", "damaged"])
def test_without_a_cache_the_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: CacheStore, trouble: str) -> None:
    checkout(tmp_path)
    files = source_files(tmp_path)
    match trouble:
        case "off":
            monkeypatch.setenv("ZYNTAX_CACHE", "off")
        case "no folder":
            cache.folder.parent.write_text("a file in its way", encoding="utf-8")
        case _:
            identity.remembered_hash(files, SETTLED)
            (entry,) = cache.folder.iterdir()
            entry.write_bytes(entry.read_bytes()[:-1])
    assert identity.remembered_hash(files, SETTLED) == contents(tmp_path)


def test_a_wheel_says_its_hash(tmp_path: Path, cache: CacheStore) -> None:
    checkout(tmp_path)
    assert identity.compiler_contents(tmp_path) == contents(tmp_path)
    (tmp_path / "runtime" / "cache").mkdir()
    (tmp_path / "runtime" / "cache" / WRITTEN).write_text("as it was built", encoding="ascii")
    assert identity.compiler_contents(tmp_path) == "as it was built"


def test_a_checkout_has_no_written_hash() -> None:
    assert not (Path(identity.__file__).parent / WRITTEN).exists(), "its files may change, and nobody would notice"


@pytest.fixture
def llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package `llvmlite` of two files; gives the folder that it lies in."""
    folder = tmp_path / "site-packages"
    (folder / "llvmlite" / "binding").mkdir(parents=True)
    (folder / "llvmlite" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "llvmlite" / "binding" / "libllvmlite.so").write_bytes(b"code")
    spec = type("Spec", (), {"submodule_search_locations": [str(folder / "llvmlite")]})
    monkeypatch.setattr(identity, "find_spec", lambda name: spec)
    return folder


def record(folder: Path, version: str, library: str) -> None:
    info = folder / f"llvmlite-{version}.dist-info"
    info.mkdir()
    lines = f"llvmlite/__init__.py,sha256=A,0\nllvmlite/binding/libllvmlite.so,{library}\nllvmlite-{version}.dist-info/RECORD,,\nbin/x,sha256=Z,1\n"
    (info / "RECORD").write_text(lines, encoding="utf-8")


def test_another_llvm_is_another_identity(llvm: Path, cache: CacheStore) -> None:
    unrecorded = identity.llvm_contents()
    assert unrecorded == hash_of(source_files(llvm, ["llvmlite"], (".py", ".so")))
    (llvm / "llvmlite" / "binding" / "libllvmlite.so").write_bytes(b"edoc")
    assert identity.llvm_contents() != unrecorded
    record(llvm, "0.50.0", "sha256=B,4")
    first = identity.llvm_contents()
    shutil.rmtree(llvm / "llvmlite-0.50.0.dist-info")
    record(llvm, "0.51.0", "sha256=B,4")
    assert identity.llvm_contents() == first, "a version that holds the same"
    shutil.rmtree(llvm / "llvmlite-0.51.0.dist-info")
    record(llvm, "0.51.0", "sha256=C,4")
    assert identity.llvm_contents() not in (first, unrecorded)


@pytest.mark.parametrize("doubt", ["two", "no hash", "unreadable"])
def test_a_record_in_doubt_is_not_believed(llvm: Path, cache: CacheStore, doubt: str) -> None:
    record(llvm, "0.50.0", "," if doubt == "no hash" else "sha256=B,4")
    if doubt == "two":
        record(llvm, "0.51.0", "sha256=C,4")
    if doubt == "unreadable":
        (llvm / "llvmlite-0.50.0.dist-info" / "RECORD").write_bytes(b"\xff\xfe\xff")
    assert identity.llvm_contents() == hash_of(source_files(llvm, ["llvmlite"], (".py", ".so")))


def test_the_compiler_llvm_and_the_system_are_in_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    made = identity.compiler_identity.__wrapped__
    monkeypatch.setattr(identity, "compiler_contents", lambda: "compiler")
    monkeypatch.setattr(identity, "llvm_contents", lambda: "LLVM")
    names = {made()}
    for what in ("compiler_contents", "llvm_contents"):
        with monkeypatch.context() as other:
            other.setattr(identity, what, lambda: "another")
            names.add(made())
    with monkeypatch.context() as other:
        other.setattr(sys, "platform", "another")
        names.add(made())
    assert len(names) == 4 and made() in names


def test_the_processor_and_its_features_are_in_the_names_of_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    monkeypatch.setattr(kept, "identity", identity.identity.__wrapped__)
    first = kept.key("program", "text", "3")
    names = {first, kept.key("program", "text", "2"), kept.key("engine", "text", "3"), kept.key("program", "Text", "3")}
    for where, what, value in (
        (detect, "host_features", f"{detect.host_features()},-avx2"),
        (detect, "host_cpu", "another"),
        (binding, "get_process_triple", "another"),
        (identity, "compiler_identity", "another"),
    ):
        with monkeypatch.context() as other:
            other.setattr(where, what, lambda value=value: value)
            names.add(kept.key("program", "text", "3"))
    assert len(names) == 8 and kept.key("program", "text", "3") == first
