"""The unpacked bytes of a file, a block at a time; a file that breaks off gives what is whole and says where it ends."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from runtime.extras import required
from runtime.records import define, frozen
from runtime.replay.bad_rows import BadSource

BLOCK = 1 << 20
"""Unpacked bytes that a reader looks at together."""

_BITE = 1 << 12
_UNPACKED = 1 << 14
_LONGEST = 1 << 26
"""Bytes of a line; what is longer is no text."""

EMPTY = "it is empty"

_GZIP, _ZSTD, _SKIPPED = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
"""How packed files begin; zstd also with a frame that holds something else, whose first byte says which."""
_PACKINGS = {".gz": "gzip", ".zst": "zstd"}


@define
class Content:
    """A file to be read once. `broken` is set when it is empty or breaks off inside its packing: why, in words."""

    path: Path
    broken: str | None = None
    unpacked: int = 0
    """Bytes that were given so far."""
    read: int = 0
    """Bytes of the file that they were unpacked from."""

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Blocks of at most about `size` bytes, none empty. Raises BadSource."""
        for block in self._blocks(size):
            self.unpacked += len(block)
            yield block
        if not self.unpacked:
            self.broken = self.broken or EMPTY

    def _blocks(self, size: int) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                first = file.read(4)
                file.seek(0)
                packing = _PACKINGS.get(self.path.suffix.lower())
                if first.startswith(_GZIP):
                    yield from self._gzip(file, size)
                elif first == _ZSTD or (first[:1] >= b"\x50" and first[:1] < b"\x60" and first[1:] == _SKIPPED):
                    yield from self._zstd(file, size)
                elif packing is not None and first:
                    raise BadSource(f"{self.path}: this is no {packing} data")
                else:
                    while block := file.read(size):
                        self.read = file.tell()
                        yield block
        except OSError as error:
            raise BadSource(f"{self.path}: {error.strerror or error}") from None

    def _gzip(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        """Small bites, since a bite that is damaged gives nothing."""
        unpacker, packed, parts, count = zlib.decompressobj(wbits=31), b"", list[bytes](), 0
        while True:
            packed = packed or file.read(_BITE)
            if not packed:
                self.broken = None if unpacker.eof else "the gzip data ends too early"
                break
            if unpacker.eof:
                # the next member; zeros that fill up a tape are none
                packed = packed.lstrip(b"\0")
                if not packed:
                    continue
                unpacker = zlib.decompressobj(wbits=31)
            try:
                parts.append(unpacker.decompress(packed))
            except zlib.error:
                self.broken = "the gzip data is damaged"
                break
            packed = unpacker.unused_data
            count += len(parts[-1])
            if count >= size:
                self.read = file.tell()
                yield b"".join(parts)
                parts, count = [], 0
        self.read = file.tell()
        if count:
            yield b"".join(parts)

    def _zstd(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        pyarrow = required("pyarrow")
        unpacked, parts, count = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd"), list[bytes](), 0
        while True:
            try:
                bite = unpacked.read(_UNPACKED)
            except OSError as error:
                self.broken = "the zstd data ends too early" if "runcated" in str(error) else "the zstd data is damaged"
                break
            if not bite:
                break
            parts.append(bite)
            count += len(bite)
            if count >= size:
                self.read = file.tell()
                yield b"".join(parts)
                parts, count = [], 0
        self.read = file.tell()
        if count:
            yield b"".join(parts)


@frozen
class WholeLines:
    """Some whole lines, their offset in the file and the number of the first, from 1. `last`: the file ends here; where `whole` is
    false its last line has no end."""

    text: bytes
    offset: int
    first: int
    last: bool = False
    whole: bool = True
    torn: bool = False
    """The packing broke off inside the last line: what it holds may lack letters."""


def line_blocks(content: Content, size: int = BLOCK) -> Iterator[WholeLines]:
    """A file's lines in blocks. A line longer than a block makes a longer block. Nothing for an empty file."""
    parts: list[bytes] = []
    offset, first = 0, 1
    for block in content.blocks(size):
        end = block.rfind(b"\n") + 1
        if not end:
            parts.append(block)
            if sum(map(len, parts)) > _LONGEST:
                raise BadSource(f"{content.path}: no line end within {_LONGEST} bytes from byte {offset}: this is no text")
            continue
        text = b"".join([*parts, block[:end]])
        yield WholeLines(text, offset, first)
        offset, first, parts = offset + len(text), first + text.count(b"\n"), [block[end:]]
    rest = b"".join(parts)
    yield WholeLines(rest, offset, first, last=True, whole=not rest, torn=bool(rest) and content.broken is not None)
