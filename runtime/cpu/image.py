"""Machine code as one piece that may lie anywhere in memory. Objects that LLVM made are put together once; from then on a process brings
the piece into its memory without LLVM, in a tenth of a millisecond."""

import ctypes
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from runtime.records import frozen

_PROGRAM, _NO_BITS, _SYMBOLS, _RELOCATIONS = 1, 8, 2, 4
_WRITTEN, _IN_MEMORY, _THREADS = 0x1, 0x2, 0x400
"""Kinds and flags of sections, as ELF numbers them."""

_MAGIC, _X86_64 = b"\x7fELF\x02\x01\x01", 62

_ABSOLUTE, _NEAR, _CALL, _FAR = 1, 2, 4, 24
_BY_TABLE = (9, 41, 42)
"""Kinds of relocations of x86-64: an address, a distance of 32 bits, that of a call, a distance of 64 bits; and the distance of a place
that holds the address."""

_JUMP = b"\xff\x25"
"""Goes to the address that lies so many bytes behind this instruction of six bytes."""


class NotPortable(Exception):
    """Objects that stay with the process that made them."""


@frozen(eq=False)
class CodeImage:
    """`places`: where addresses belong: the offset, the name of what is meant (empty for the image itself), and how far behind its begin.
    `entries`: offsets of functions by name."""

    code: bytes
    places: tuple[tuple[int, str, int], ...]
    entries: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        return {"places": self.places, "entries": dict(self.entries)}

    @classmethod
    def of(cls, head: Mapping[str, Any], code: bytes) -> "CodeImage":
        """From what `as_json` gave. Raises ValueError for places outside."""
        image = cls(code, tuple((offset, name, behind) for offset, name, behind in head["places"]), head["entries"])
        inside = all(0 <= offset <= len(code) - 8 for offset, _, _ in image.places)
        if not inside or not all(0 <= offset < len(code) for offset in image.entries.values()):
            raise ValueError("a place outside")
        return image

    def loaded(self, symbols: Mapping[str, int]) -> "LoadedImage":
        """In this process's memory. `symbols`: addresses by name; other names are those of C's functions. Raises ValueError for a name that
        nothing has, OSError where the system lets nothing new run."""
        memory = mmap.mmap(-1, len(self.code), prot=mmap.PROT_READ | mmap.PROT_WRITE)
        memory.write(self.code)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        known: dict[str, int] = {"": start}
        for offset, name, behind in self.places:
            if name not in known:
                known[name] = symbols[name] if name in symbols else _of_process(name)
            struct.pack_into("<Q", memory, offset, known[name] + behind & (1 << 64) - 1)
        protect = _library().mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(start, len(self.code), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError("the system lets no new code run")
        return LoadedImage(memory, {name: start + offset for name, offset in self.entries.items()})


@frozen(eq=False)
class LoadedImage:
    """An image that lies in memory as long as this object lives."""

    memory: mmap.mmap
    addresses: Mapping[str, int]


@cache
def _library() -> Any:
    return ctypes.CDLL(None)


def _of_process(name: str) -> int:
    """Where C's function of that name lies. Raises ValueError."""
    try:
        return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise ValueError(f"no function {name}") from None


@frozen(eq=False)
class ObjectToLink:
    """An object of LLVM's. `exports`: the names under which others and the process know its functions, by its own for them."""

    code: bytes
    exports: Mapping[str, str]


def put_together(objects: Sequence[ObjectToLink], entries: Sequence[str]) -> CodeImage:
    """One image of objects that call each other, with these entries. Raises NotPortable."""
    if os.name != "posix":
        raise NotPortable("a system without mprotect")
    return _ImageLinker(objects).image(entries)


class _ImageLinker:
    def __init__(self, objects: Sequence[ObjectToLink]) -> None:
        self.image_bytes = bytearray()
        self.places: list[tuple[int, str, int]] = []
        self.exports: dict[str, int] = {}
        self._tables: dict[str | int, int] = {}
        self._jumps: dict[str, int] = {}
        self._files = [_ObjectFile(each.code) for each in objects]
        for file, each in zip(self._files, objects, strict=True):
            self._lay_out(file)
            self.exports.update({outside: file.defined[own] for own, outside in each.exports.items() if own in file.defined})

    def image(self, entries: Sequence[str]) -> CodeImage:
        for file in self._files:
            for section, target in file.relocations:
                if target in file.offsets:
                    for place, kind, symbol, addend in struct.iter_unpack("<QIIq", file.held(section)):
                        self._relocate(file, file.offsets[target] + place, kind, symbol, addend)
        if any(name not in self.exports for name in entries):
            raise NotPortable("an entry that isn't there")
        self._align(mmap.PAGESIZE)
        return CodeImage(bytes(self.image_bytes), tuple(self.places), {name: self.exports[name] for name in entries})

    def _align(self, alignment: int) -> int:
        self.image_bytes += bytes(-len(self.image_bytes) % max(1, alignment))
        return len(self.image_bytes)

    def _lay_out(self, file: "_ObjectFile") -> None:
        for number, section in enumerate(file.sections):
            if not section.flags & _IN_MEMORY or section.name == b".eh_frame" or section.size == 0:
                continue
            changes = section.flags & _WRITTEN and not section.name.startswith(b".data.rel.ro")
            if section.flags & _THREADS or changes or section.kind not in (_PROGRAM, _NO_BITS):
                raise NotPortable("memory of its own")
            file.offsets[number] = self._align(section.alignment)
            self.image_bytes += file.held(section)
        file.define(file.offsets)

    def _relocate(self, file: "_ObjectFile", place: int, kind: int, symbol: int, addend: int) -> None:
        target = self._target(file, symbol)
        if kind == _ABSOLUTE:
            self.places.append((place, target, addend) if isinstance(target, str) else (place, "", target + addend))
            return
        if kind in _BY_TABLE:
            target = self._entry_of_table(target)
        elif kind == _CALL and isinstance(target, str):
            target = self._jump_to(target)
        elif kind not in (_NEAR, _CALL, _FAR) or isinstance(target, str):
            raise NotPortable(f"a relocation of kind {kind}")
        struct.pack_into("<q" if kind == _FAR else "<i", self.image_bytes, place, target + addend - place)

    def _target(self, file: "_ObjectFile", symbol: int) -> int | str:
        """The offset of a symbol in the image, or its name where the process has it."""
        name, offset = file.symbols[symbol]
        return offset if offset is not None else self.exports.get(name, name)

    def _entry_of_table(self, target: int | str) -> int:
        """A place that holds this address."""
        if target not in self._tables:
            offset = self._tables[target] = self._align(8)
            self.image_bytes += bytes(8)
            self.places.append((offset, target, 0) if isinstance(target, str) else (offset, "", target))
        return self._tables[target]

    def _jump_to(self, name: str) -> int:
        """Code that goes on at a function of the process, which may lie far away."""
        if name not in self._jumps:
            holder = self._entry_of_table(name)
            offset = self._jumps[name] = self._align(8)
            self.image_bytes += _JUMP + struct.pack("<i", holder - offset - 6)
        return self._jumps[name]


@frozen(eq=False)
class _Section:
    name: bytes
    kind: int
    flags: int
    start: int
    size: int
    target: int
    alignment: int


class _ObjectFile:
    """An ELF object for x86-64, as LLVM writes it. Raises NotPortable for anything else."""

    def __init__(self, code: bytes) -> None:
        if not code.startswith(_MAGIC) or struct.unpack_from("<H", code, 18)[0] != _X86_64:
            raise NotPortable("an object for another machine")
        self.code = code
        first, width, count, names = (*struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HHH", code, 58))
        heads = [struct.unpack_from("<IIQQQQIIQQ", code, first + width * number) for number in range(count)]
        texts = heads[names]
        self.sections = [
            _Section(self._text(texts[4], name), kind, flags, start, size, info, alignment)
            for name, kind, flags, _, start, size, _, info, alignment, _ in heads
        ]
        self.relocations = [(section, section.target) for section in self.sections if section.kind == _RELOCATIONS]
        self.offsets: dict[int, int] = {}
        """Where each section begins in the image."""
        self.symbols: list[tuple[str, int | None]] = []
        """Name and offset in the image of each; None for what comes from elsewhere."""
        self.defined: dict[str, int] = {}
        self._heads = heads

    def held(self, section: _Section) -> bytes:
        if section.kind == _NO_BITS:
            return bytes(section.size)
        return self.code[section.start : section.start + section.size]

    def define(self, offsets: Mapping[int, int]) -> None:
        """Finds the symbols, whose sections begin at these offsets."""
        for section, head in zip(self.sections, self._heads, strict=True):
            if section.kind == _SYMBOLS:
                texts = self.sections[head[6]].start
                for name, _, _, home, value, _ in struct.iter_unpack("<IBBHQQ", self.held(section)):
                    text = self._text(texts, name).decode()
                    known = offsets[home] + value if home in offsets else None
                    if known is None and (home not in (0, 0xFFF1) and text):
                        raise NotPortable(f"the symbol {text}")
                    self.symbols.append((text, known))
                    if known is not None and text:
                        self.defined[text] = known

    def _text(self, start: int, offset: int) -> bytes:
        first = start + offset
        return self.code[first : self.code.index(b"\0", first)]
