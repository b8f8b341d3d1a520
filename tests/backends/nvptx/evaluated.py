"""Runs straight-line PTX of one warp in Python, an instruction at a time for all lanes: what addresses and exchanged values come to. It
knows what the PTX ISA says of each instruction and nothing of the compiler; anything else than plain arithmetic on ints, loads, stores,
shuffles and sums in memory is an error."""

import re
from collections.abc import Callable, Iterable, Mapping

from compiler.backends.nvptx.compile import PtxModule

LANES = range(32)
SHARED = 1 << 40
"""Where the first shared variable lies; others follow at distances that keep their alignment."""

_TOKENS = re.compile(r"[^\s,\[\]{};]+")
_MEMORY = re.compile(r"\[([^\]]+)\]")


class Warp:
    """The registers of all lanes and the bytes of memory, by address."""

    def __init__(self, module: PtxModule, parameters: Mapping[int, int], memory: dict[int, int] | None = None, thread: int = 0) -> None:
        self.text = module.text
        self.parameters = parameters
        self.memory: dict[int, int] = memory if memory is not None else {}
        self.first, self.lanes = thread, LANES
        self.registers: dict[str, list[int]] = {}
        self.symbols: dict[str, int] = {}
        self.stored: list[list[int]] = []
        """The addresses of each store, lane by lane."""

    def run(self) -> "Warp":
        for line in self.text[self.text.index("\n{") :].splitlines():
            words = line.split("//")[0].strip().rstrip(";")
            if words.startswith(".shared"):
                self.symbols[re.findall(r"(\w+)\[", words)[0]] = SHARED + (len(self.symbols) << 20)
            elif words and words[0] not in ".{}" and not words.startswith(("griddepcontrol", "bar.", "ret")):
                self.instruction(words)
        return self

    def instruction(self, words: str) -> None:
        name, _, operands = words.partition(" ")
        kind, *kinds = name.split(".")
        parts = _TOKENS.findall(_MEMORY.sub("", operands))
        if kind in ("ld", "st", "atom", "red"):
            self.access(kind, kinds, parts, _MEMORY.findall(operands)[0])
            return
        bits = next((int(one[1:]) for one in reversed(kinds) if re.fullmatch(r"[bsu]\d+", one)), 64)
        signed = any(re.fullmatch(r"s\d+", one) for one in kinds)
        target, *sources = parts
        values = [[self.value(source, lane) for source in sources] for lane in self.lanes]
        if kind == "shfl":
            self.registers[target] = self.shuffled(kinds[1], values)
            return
        self.registers[target] = [self.computed(kind, kinds, bits, signed, row) for row in values]

    def computed(self, kind: str, kinds: list[str], bits: int, signed: bool, row: list[int]) -> int:
        a, b, c = (*row, 0, 0)[:3]
        wide = 2 * bits if "wide" in kinds else bits
        if signed or kind in ("setp",):
            a, b = (_signed(x, bits) if signed else x & ((1 << bits) - 1) for x in (a, b))
        plain: dict[str, Callable[[], int]] = {
            "mov": lambda: a,
            "cvt": lambda: _signed(a, int(kinds[-1][1:])) if kinds[-1].startswith("s") else a & ((1 << int(kinds[-1][1:])) - 1),
            "cvta": lambda: a,
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "neg": lambda: -a,
            "mul": lambda: a * b,
            "mad": lambda: a * b + c,
            "shl": lambda: a << b,
            "shr": lambda: (a if signed else a & ((1 << bits) - 1)) >> b,
            "and": lambda: a & b,
            "or": lambda: a | b,
            "xor": lambda: a ^ b,
            "selp": lambda: a if c else b,
            "setp": lambda: {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[kinds[0]],
        }
        return int(plain[kind]()) & ((1 << wide) - 1)

    def shuffled(self, mode: str, values: list[list[int]]) -> list[int]:
        found = []
        for lane in LANES:
            _, by, clamp = (number & 0xFFFFFFFF for number in values[lane][:3])
            segment, most = clamp >> 8 & 31, clamp & 31
            by &= 31
            last, first = lane & segment | most & ~segment & 31, lane & segment
            source = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": first | by & ~segment & 31}[mode]
            inside = source >= last if mode == "up" else source <= last
            found.append(values[source if inside else lane][0])
        return found

    def access(self, kind: str, kinds: list[str], parts: list[str], at: str) -> None:
        if "param" in kinds:
            number = int(at.rpartition("_")[2])
            self.registers[parts[0]] = [self.parameters[number]] * len(self.lanes)
            return
        base, _, offset = at.partition("+")
        addresses = [self.value(base, lane) + int(offset or 0) for lane in LANES]
        size = next(int(one[1:]) for one in reversed(kinds) if re.fullmatch(r"[bsuf]\d+", one)) // 8
        count = next((int(one[1:]) for one in kinds if re.fullmatch(r"v\d", one)), 1)
        assert all(address % (size * count) == 0 for address in addresses), f"{kind}.{'.'.join(kinds)} at {addresses}"
        if kind == "ld":
            for number, register in enumerate(parts):
                self.registers[register] = [self.memory.get(address + number * size, 0) for address in addresses]
            return
        if kind == "st":
            self.stored.append(addresses)
            for number, source in enumerate(parts):
                for lane in LANES:
                    self.memory[addresses[lane] + number * size] = self.value(source, lane)
            return
        assert "add" in kinds, kinds
        if kind == "atom":
            self.registers[parts[0]] = [0] * 32
        for lane in LANES:
            old = self.memory.get(addresses[lane], 0)
            if kind == "atom":
                self.registers[parts[0]][lane] = old
            self.memory[addresses[lane]] = (old + self.value(parts[-1], lane)) & ((1 << 8 * size) - 1)

    def value(self, name: str, lane: int) -> int:
        if name == "%tid.x":
            return self.first + lane
        if name in self.registers:
            return self.registers[name][lane]
        return self.symbols[name] if name in self.symbols else int(name, 0)


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


class Thread(Warp):
    """One thread, which may branch, over memory of single bytes. An access outside of `pages` is an error."""

    def __init__(self, module: PtxModule, parameters: Mapping[int, int], memory: dict[int, int], pages: Iterable[range]) -> None:
        super().__init__(module, parameters, memory)
        self.pages, self.lanes = tuple(pages), range(1)

    def run(self) -> "Thread":
        lines = [line.split("//")[0].strip().rstrip(";") for line in self.text[self.text.index("\n{") :].splitlines()]
        labels = {line.rstrip(":"): number for number, line in enumerate(lines) if line.endswith(":")}
        number = 0
        while (line := lines[number]) != "ret":
            number += 1
            guard = re.match(r"@(!?)(%p\d+)\s+bra(?:\.uni)?\s+(\S+)", line)
            if guard is not None:
                number = labels[guard[3]] if bool(self.value(guard[2], 0)) != bool(guard[1]) else number
            elif line.startswith("bra"):
                number = labels[line.split()[-1]]
            elif line and line[0] not in ".{}$" and not line.startswith("griddepcontrol"):
                self.instruction(" ".join(line.split()))
        return self

    def instruction(self, words: str) -> None:
        name, _, operands = words.partition(" ")
        kind, *kinds = name.split(".")
        parts = _TOKENS.findall(operands)
        if kind == "mov" and "{" in operands:
            if operands.startswith("{"):
                low, high, whole = parts[0], parts[1], self.value(parts[2], 0)
                self.registers |= {low: [whole & 0xFFFF], high: [whole >> 16]}
            else:
                self.registers[parts[0]] = [self.value(parts[1], 0) | self.value(parts[2], 0) << 16]
        elif kind == "cvt":
            number, bits = self.value(parts[1], 0), int(kinds[1][1:])
            number = _signed(number, bits) if kinds[1].startswith("s") else number & (1 << bits) - 1
            self.registers[parts[0]] = [number & (1 << int(kinds[0][1:])) - 1]
        elif kind == "prmt":
            assert kinds[-1] == "f4e", words
            low, high, by = (self.value(part, 0) for part in parts[1:])
            self.registers[parts[0]] = [(high << 32 | low) >> 8 * (by & 3) & 0xFFFFFFFF]
        else:
            super().instruction(words)

    def computed(self, kind: str, kinds: list[str], bits: int, signed: bool, row: list[int]) -> int:
        if kind in ("min", "max"):
            pick = min if kind == "min" else max
            return pick(_signed(x, bits) if signed else x for x in row) & (1 << bits) - 1
        return ~row[0] & (1 << bits) - 1 if kind == "not" else super().computed(kind, kinds, bits, signed, row)

    def access(self, kind: str, kinds: list[str], parts: list[str], at: str) -> None:
        if "param" in kinds:
            super().access(kind, kinds, parts, at)
            return
        base, _, offset = at.partition("+")
        size = next(int(one[1:]) for one in reversed(kinds) if re.fullmatch(r"[bsuf]\d+", one)) // 8
        begin = self.value(base, 0) + int(offset or 0)
        everything = range(begin, begin + size * len(parts))
        assert begin % len(everything) == 0, f"{kind}.{'.'.join(kinds)} at {begin}"
        assert any(begin in page and everything[-1] in page for page in self.pages), f"{begin} is outside of {self.pages}"
        for number, register in enumerate(parts):
            place = begin + number * size
            if kind == "ld":
                known = sum(self.memory.get(place + byte, 0xEE) << 8 * byte for byte in range(size))
                self.registers[register] = [_signed(known, 8 * size) & 0xFFFFFFFF if any(one.startswith("s") for one in kinds) else known]
            else:
                self.memory |= {place + byte: self.value(register, 0) >> 8 * byte & 0xFF for byte in range(size)}
