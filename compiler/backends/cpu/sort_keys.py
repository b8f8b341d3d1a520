"""Sorting a line of keys that carry nothing along and of which equal ones are alike: parts by their leading digit until a part is so
short that vectors sort it. Keys move as their bits. The order of equal keys gets lost, so a line of floats has neither NaN nor -0.0."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.backends.cpu.sort_network import SortNetwork
from compiler.backends.cpu.sort_split import MOST_PARTS, LineSplit
from compiler.backends.cpu.threads import call_team
from compiler.backends.llvm.types import F32, F64, I1, I32, I64, PTR, LlvmType, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.hir.types import SIGNED, bytes_of, is_float

DIGIT_BITS = 10
"""Of the widest digit: the ends of its parts, and their counters, fill an eighth of a second cache of 512 KiB."""
FAR_BYTES, FAR_DIGIT_BITS = 1 << 24, 8
"""Bytes of a line that is in no near cache, and bits of its digits: the ends of its parts fill half of a first cache."""
SHORT_BYTES = 16384
"""Bytes of elements that vectors sort as a whole."""
PART_BYTES = 1024
"""Bytes of neighbouring parts that are sorted together: the time of vectors grows with every doubling, that of parts doesn't."""
CHUNK = 256
"""Keys whose digits are computed at a time."""
DEEP = 6
"""Parts of parts that may be made by samples: then bits of all keys make them, which ends for certain."""
WORTH_THREADS = 1 << 18
"""Keys whose parts are worth threads: about a millisecond."""
PARTS = 3
"""Bits of a digit more than would make parts of that size where keys are spread evenly."""


class KeySort:
    """The functions of a module that sort lines of one dtype in one direction."""

    def __init__(self, module: ModuleWriter, dtype: str, descending: bool) -> None:
        self.module, self.dtype, self.descending = module, dtype, descending
        self.bits = 8 * bytes_of(dtype)
        self.memory = vector(f"i{self.bits}")
        element = {"f32": F32, "f64": F64}.get(dtype, I64 if self.bits == 64 else I32)
        self.network = SortNetwork(module, element, descending)
        self.short, self.part = (max(self.network.size, size // element.bytes) for size in (SHORT_BYTES, PART_BYTES))
        self.numbers = vector(f"i{element.bits}")
        self.split = LineSplit(module, self.network, self.memory, self.element, self.name)

    # ---- what keys are ----

    def number(self, w: FunctionWriter, key: LlvmValue) -> LlvmValue:
        """Bits of keys as signed numbers in the wanted order, of the bits that the network's elements have."""
        number = self._turned(w, key) if self.network.element.is_float else self.element(w, key)
        return w.binary("xor", number, constant(number.type, -1)) if self.descending else number

    def element(self, w: FunctionWriter, key: LlvmValue) -> LlvmValue:
        """What the network compares for the bits of keys."""
        wanted = self.network.element
        if wanted.is_float:
            return w.convert("bitcast", key, wanted.element)
        if is_float(self.dtype) or (self.dtype not in SIGNED and self.bits >= 32):
            key = self._turned(w, key)
        return w.convert("sext" if self.dtype in SIGNED or is_float(self.dtype) else "zext", key, wanted.element)

    def key(self, w: FunctionWriter, element: LlvmValue) -> LlvmValue:
        """The bits again."""
        wanted = self.network.element
        if wanted.is_float:
            return w.convert("bitcast", element, self.memory.element)
        key = w.convert("trunc", element, self.memory.element)
        return self._turned(w, key) if is_float(self.dtype) or (self.dtype not in SIGNED and self.bits >= 32) else key

    def _turned(self, w: FunctionWriter, key: LlvmValue) -> LlvmValue:
        """Bits of narrow floats, or of wide unsigned ints, as signed ints in the same order, and back."""
        top = 1 << (self.bits - 1)
        if not is_float(self.dtype):
            return w.binary("xor", key, constant(key.type, top))
        negative = w.binary("ashr", key, constant(key.type, self.bits - 1))
        return w.binary("xor", key, w.binary("and", negative, constant(key.type, top - 1)))

    # ---- functions ----

    def line(self) -> str:
        """`void (ptr here, ptr other, i64 count, i1 away, i64 depth, i64 threads)`: the keys at `here` in order, put there, or to `other`
        if `away`, which is room for as many. `depth`: parts of how many lines it is. `threads`: how many may sort its parts."""
        short, parts = self._short(), self._parts()
        split = self._split() if self.split.works else None

        def make(name: str) -> None:
            w = self.module.function(name, None, _LINE, "internal", "noinline")
            here, other, count, away, depth, threads = w.parameters
            few, many, done = w.label("few"), w.label("many"), w.label("done")
            w.branch_if(w.compare("sle", count, constant(I64, self.short)), few, many)
            w.start(few)
            w.call_void(short, here, w.select(away, other, here), count)
            w.branch(done)
            w.start(many)
            if split is not None:
                is_long = w.compare("sge", count, constant(I64, SPLIT_BYTES // self.memory.bytes))
                with w.when(w.binary("and", is_long, w.compare("eq", depth, constant(I64, 0)))):
                    w.call_void(split, here, other, count, threads)
                    w.ret()
            w.call_void(parts, here, other, count, away, depth, threads)
            w.branch(done)
            w.start(done)
            w.ret()

        return self.module.helper(self.name("line"), make)

    def _split(self) -> str:
        """`void (ptr here, ptr other, i64 count, i64 threads)`: a line that is in no near cache, in place."""
        into_parts, shares = self.split.parts(), self._split_shares()

        def make(name: str) -> None:
            w = self.module.function(name, None, [(PTR, "here"), (PTR, "other"), (I64, "count"), (I64, "threads")], "internal", "noinline")
            here, other, count, threads = w.parameters
            one = constant(I64, 1)
            wanted = w.binary("udiv", count, constant(I64, NEAR_BYTES // self.memory.bytes))
            bits = w.sub(constant(I64, 64), w.call("llvm.ctlz.i64", I64, wanted, LlvmValue(I1, "false")))
            parts = w.intrinsic("smin", w.binary("shl", one, bits), constant(I64, MOST_PARTS))
            ends = w.alloca(I64, MOST_PARTS, 64)
            w.call_void(into_parts, here, count, parts, ends)
            context = _context(w, here, other, ends, count, parts, constant(I64, 0), one)
            _call_shares(w, shares, context, threads)
            w.ret()

        return self.module.helper(self.name("split"), make)

    def _split_shares(self) -> str:
        """`void (ptr context, i64 number, i64 shares)`: the parts of a split line that begin in that share of it, sorted where they are, by
        turns with the same other room, that of the first."""
        line = self.name("line")

        def make(name: str) -> None:
            w = self.module.function(name, None, [(PTR, "context"), (I64, "number"), (I64, "shares")], "internal", "noinline")
            shared = _Shared(w)
            begun, base = w.alloca(I64), w.alloca(I64)
            w.store(constant(I64, 0), begun)
            w.store(constant(I64, -1), base)
            with w.loop(constant(I64, 0), shared.held["buckets"]) as part:
                low, high = w.load(I64, begun), w.load(I64, w.offset(shared.counters, part, I64))
                w.store(high, begun)
                with w.when(shared.is_own(low, high)):
                    first = w.load(I64, base)
                    first = w.select(w.compare("slt", first, constant(I64, 0)), low, first)
                    w.store(first, base)
                    here, room = self._at(w, shared.here, low), self._at(w, shared.other, first)
                    w.call_void(line, here, room, w.sub(high, low), constant(I1, 0), shared.held["depth"], constant(I64, 1))
            w.ret()

        return self.module.helper(self.name("split_shares"), make)

    def name(self, part: str) -> str:
        return f"sort.{part}.{self.dtype}.{'down' if self.descending else 'up'}"

    def _at(self, w: FunctionWriter, pointer: LlvmValue, index: LlvmValue) -> LlvmValue:
        return w.offset(pointer, index, self.memory)

    def _short(self) -> str:
        """`void (ptr here, ptr to, i64 count)`: a short line, by vectors in a room of its own."""
        network = self.network
        blocks, size = network.blocks(), network.size

        def make(name: str) -> None:
            w = self.module.function(name, None, [(PTR, "here"), (PTR, "to"), (I64, "count")], "internal", "noinline")
            here, to, count = w.parameters
            room = w.alloca(network.element, (self.short + size - 1) // size * size, 64)
            number = w.binary("udiv", w.add(count, constant(I64, size - 1)), constant(I64, size))
            lanes, align = network.lanes, bytes_of(self.dtype)
            held = self.memory.with_lanes(lanes)
            whole = w.binary("and", count, constant(I64, -lanes))
            with w.loop(constant(I64, 0), whole, lanes) as at:
                w.store(self.element(w, w.load(held, self._at(w, here, at), align)), w.offset(room, at, network.element), align)
            with w.loop(whole, count) as at:
                w.store(self.element(w, w.load(self.memory, self._at(w, here, at), align)), w.offset(room, at, network.element))
            with w.loop(count, w.mul(number, constant(I64, size))) as at:
                w.store(network.last, w.offset(room, at, network.element))
            w.call_void(blocks, room, number)
            with w.loop(constant(I64, 0), whole, lanes) as at:
                w.store(self.key(w, w.load(network.vector, w.offset(room, at, network.element), align)), self._at(w, to, at), align)
            with w.loop(whole, count) as at:
                w.store(self.key(w, w.load(network.element, w.offset(room, at, network.element))), self._at(w, to, at), align)
            w.ret()

        return self.module.helper(self.name("short"), make)

    def _parts(self) -> str:
        """As `line`, of a long one."""
        spread, shares = self._spread(), self._shares()

        def make(name: str) -> None:
            w = self.module.function(name, None, _LINE, "internal", "noinline")
            here, other, count, away, depth, threads = w.parameters
            zero, one = constant(I64, 0), constant(I64, 1)
            align = bytes_of(self.dtype)
            wanted = w.sub(constant(I64, 64), w.call("llvm.ctlz.i64", I64, count, LlvmValue(I1, "true")))
            wanted = w.sub(wanted, constant(I64, self.part.bit_length() - PARTS))
            mapping = w.alloca(self.numbers, len(_MAPPING), 64)
            is_far = w.compare("sge", count, constant(I64, FAR_BYTES // align))
            width = w.intrinsic("smin", wanted, w.select(is_far, constant(I64, FAR_DIGIT_BITS), constant(I64, DIGIT_BITS)))
            buckets = w.call(spread, I64, here, count, width, mapping, depth)
            unlike = w.label("unlike")
            alike = w.label("alike")
            w.branch_if(w.compare("eq", buckets, one), alike, unlike)
            w.start(alike)
            with w.when(away):
                w.module.declare("llvm.memcpy.p0.p0.i64", "void (ptr, ptr, i64, i1)")
                w.call_void("llvm.memcpy.p0.p0.i64", other, here, w.mul(count, constant(I64, align)), constant(I1, 0))
            w.ret()
            w.start(unlike)
            counters, digits = w.alloca(I64, 1 << DIGIT_BITS, 64), w.alloca(self.numbers, CHUNK, 64)
            into = self._digits()

            @contextmanager
            def keys() -> Iterator[tuple[LlvmValue, LlvmValue]]:
                """All keys in turn: their places, and their digits' counters."""
                with w.loop(zero, count, CHUNK) as first:
                    some = w.intrinsic("smin", w.sub(count, first), constant(I64, CHUNK))
                    w.call_void(into, self._at(w, here, first), digits, some, mapping)
                    with w.loop(zero, some) as at:
                        digit = w.convert("zext", w.load(self.numbers, w.offset(digits, at, self.numbers)), "i64")
                        yield w.add(first, at), w.offset(counters, digit, I64)

            with w.loop(zero, buckets) as bucket:
                w.store(zero, w.offset(counters, bucket, I64))
            with keys() as (_, cell):
                w.store(w.add(w.load(I64, cell), one), cell)
            before = w.alloca(I64)
            w.store(zero, before)
            with w.loop(zero, buckets) as bucket:
                cell = w.offset(counters, bucket, I64)
                start = w.load(I64, before)
                w.store(w.add(start, w.load(I64, cell)), before)
                w.store(start, cell)
            with keys() as (at, cell):
                place = w.load(I64, cell)
                w.store(w.add(place, one), cell)
                w.store(w.load(self.memory, self._at(w, here, at), align), self._at(w, other, place), align)
            # each counter is now where its part ends
            context = _context(w, other, here, counters, count, buckets, w.convert("zext", away, "i64"), w.add(depth, one))
            many = w.compare("sge", count, constant(I64, WORTH_THREADS))
            _call_shares(w, shares, context, w.select(many, threads, one))
            w.ret()

        return self.module.helper(self.name("parts"), make)

    def _shares(self) -> str:
        """`void (ptr context, i64 number, i64 shares)`: the parts of a line that begin in that share of it, sorted. Neighbours are sorted
        together while they are short."""
        line = self.name("line")

        def make(name: str) -> None:
            w = self.module.function(name, None, [(PTR, "context"), (I64, "number"), (I64, "shares")], "internal", "noinline")
            shared = _Shared(w)
            here, other, held = shared.here, shared.other, shared.held
            zero, one = constant(I64, 0), constant(I64, 1)
            back = w.compare("eq", held["away"], zero)
            begun, last = w.alloca(I64), w.alloca(I64)
            w.store(zero, begun)
            w.store(zero, last)

            def sort(low: LlvmValue, high: LlvmValue) -> None:
                with w.when(shared.is_own(low, high)):
                    w.call_void(line, self._at(w, here, low), self._at(w, other, low), w.sub(high, low), back, held["depth"], one)

            with w.loop(zero, held["buckets"]) as bucket:
                end = w.load(I64, w.offset(shared.counters, bucket, I64))
                with w.when(w.compare("sgt", w.sub(end, w.load(I64, begun)), constant(I64, self.part))):
                    sort(w.load(I64, begun), w.load(I64, last))
                    w.store(w.load(I64, last), begun)
                w.store(end, last)
            sort(w.load(I64, begun), w.load(I64, last))
            w.ret()

        return self.module.helper(self.name("shares"), make)

    # ---- digits ----

    def _spread(self) -> str:
        """`i64 (ptr here, i64 count, i64 width, ptr mapping, i64 depth)`: how many digits spread the keys, 1 if all are alike;
        writes how keys become digits. The range is that of a sample, without its widest gap if that is more than half: floats of both signs
        have one."""
        difference, block = self._difference(), self.network.block()

        def make(name: str) -> None:
            parameters = [(PTR, "here"), (I64, "count"), (I64, "width"), (PTR, "mapping"), (I64, "depth")]
            w = self.module.function(name, I64, parameters, "internal", "noinline")
            here, count, width, mapping, depth = w.parameters
            number, size = self.numbers, self.network.size
            sample = w.alloca(self.network.element, size, 64)
            zero, one = constant(number, 0), constant(number, 1)
            apart = w.binary("udiv", count, constant(I64, size))
            with w.loop(constant(I64, 0), constant(I64, size)) as at:
                key = w.load(self.memory, self._at(w, here, w.mul(at, apart)), self.memory.bytes)
                w.store(self.element(w, key), w.offset(sample, at, self.network.element))
            w.call_void(block, sample)

            def sampled(at: LlvmValue) -> LlvmValue:
                return self.number(w, self.key(w, w.load(self.network.element, w.offset(sample, at, self.network.element))))

            lowest, highest = sampled(constant(I64, 0)), sampled(constant(I64, size - 1))
            cells = {part: w.alloca(number) for part in _MAPPING}
            for part, value in (("lowest", lowest), ("highest", highest), ("above", lowest), ("below", lowest), ("gap", zero)):
                w.store(value, cells[part])
            widest = w.alloca(number)
            w.store(w.binary("lshr", w.binary("sub", highest, lowest), one), widest)
            with w.loop(constant(I64, 1), constant(I64, size)) as at:
                above, below = sampled(at), sampled(w.sub(at, constant(I64, 1)))
                gap = w.binary("sub", above, below)
                with w.when(w.compare("ugt", gap, w.load(number, widest))):
                    w.store(gap, widest)
                    for part, value in (("above", above), ("below", below), ("gap", w.binary("sub", gap, one))):
                        w.store(value, cells[part])
            unspread = w.binary("or", w.compare("eq", lowest, highest), w.compare("sgt", depth, constant(I64, DEEP)))
            with w.when(unspread):  # all keys tell in which bits they differ
                differs = w.call(difference, number, here, count)
                one_alone = w.label("alike"), w.label("unlike")
                w.branch_if(w.compare("eq", differs, zero), *one_alone)
                w.start(one_alone[0])
                w.ret(constant(I64, 1))
                w.start(one_alone[1])
                leading = w.call(f"llvm.ctlz.{number.suffix}", number, differs, LlvmValue(I1, "true"))
                mask = w.binary("lshr", constant(number, -1), leading)
                sign = constant(number, 1 << (number.bits - 1))
                least = w.binary("and", w.binary("xor", lowest, sign), w.binary("xor", mask, constant(number, -1)))
                most = w.binary("xor", w.binary("or", least, mask), sign)
                least = w.binary("xor", least, sign)
                for part, value in (("lowest", least), ("highest", most), ("above", least), ("below", least), ("gap", zero)):
                    w.store(value, cells[part])
            values = {part: w.load(number, cell) for part, cell in cells.items() if part != "shift"}
            values["highest"] = w.binary("sub", values["highest"], values["gap"])
            reach = w.binary("sub", values["highest"], values["lowest"])
            leading = w.call(f"llvm.ctlz.{number.suffix}", number, reach, LlvmValue(I1, "false"))
            bits = w.binary("sub", constant(number, number.bits), leading)
            narrow = width if number.bits == 64 else w.convert("trunc", width, number.element)
            values["shift"] = w.intrinsic("smax", w.binary("sub", bits, narrow), zero)
            for place, part in enumerate(_MAPPING):
                w.store(values[part], w.offset(mapping, constant(I64, place), number))
            digits = w.binary("lshr", reach, values["shift"])
            w.ret(w.add(w.convert("zext", digits, "i64"), constant(I64, 1)))

        return self.module.helper(self.name("spread"), make)

    def _digits(self) -> str:
        """`void (ptr keys, ptr digits, i64 count, ptr mapping)`: the digits of keys; what lies outside of a range is as its end."""

        def make(name: str) -> None:
            w = self.module.function(name, None, [(PTR, "keys"), (PTR, "digits"), (I64, "count"), (PTR, "mapping")], "internal", "noinline")
            keys, digits, count, mapping = w.parameters
            parts = {part: w.load(self.numbers, w.offset(mapping, constant(I64, at), self.numbers)) for at, part in enumerate(_MAPPING)}
            lanes = self.network.lanes
            whole = w.binary("and", count, constant(I64, -lanes))

            def put(held: LlvmType, at: LlvmValue) -> None:
                number = self.number(w, w.load(held, self._at(w, keys, at), self.memory.bytes))
                moved = w.binary("sub", number, w.splat(parts["gap"], held.lanes))
                small = w.intrinsic("smin", number, w.splat(parts["below"], held.lanes))
                number = w.select(w.compare("sge", number, w.splat(parts["above"], held.lanes)), moved, small)
                number = w.intrinsic("smax", number, w.splat(parts["lowest"], held.lanes))
                number = w.intrinsic("smin", number, w.splat(parts["highest"], held.lanes))
                digit = w.binary("lshr", w.binary("sub", number, w.splat(parts["lowest"], held.lanes)), w.splat(parts["shift"], held.lanes))
                w.store(digit, w.offset(digits, at, self.numbers), self.numbers.bytes)

            with w.loop(constant(I64, 0), whole, lanes) as at:
                put(self.memory.with_lanes(lanes), at)
            with w.loop(whole, count) as at:
                put(self.memory, at)
            w.ret()

        return self.module.helper(self.name("digits"), make)

    def _difference(self) -> str:
        """`iN (ptr, i64 count)`: the bits in which the numbers of some keys differ."""

        def make(name: str) -> None:
            w = self.module.function(name, self.numbers, [(PTR, "here"), (I64, "count")], "internal", "noinline")
            here, count = w.parameters
            lanes, align = self.network.lanes, self.memory.bytes
            held, kept = self.memory.with_lanes(lanes), self.numbers.with_lanes(lanes)
            first = w.splat(self.number(w, w.load(self.memory, here, align)), lanes)
            cell = w.alloca(kept, 1, kept.bytes)
            w.store(constant(kept, 0), cell)

            def take(at: LlvmValue) -> None:
                differs = w.binary("xor", self.number(w, w.load(held, self._at(w, here, at), align)), first)
                w.store(w.binary("or", w.load(kept, cell), differs), cell)

            with w.loop(constant(I64, 0), w.sub(count, constant(I64, lanes)), lanes) as at:
                take(at)
            take(w.sub(count, constant(I64, lanes)))  # the last ones, some of them for the second time
            w.ret(w.call(f"llvm.vector.reduce.or.{kept.suffix}", self.numbers, w.load(kept, cell)))

        return self.module.helper(self.name("difference"), make)


_MAPPING = ("lowest", "highest", "above", "below", "gap", "shift")
"""How numbers become digits: those from `above` on are moved by a gap, others are at most `below`; all are cut to a range and shifted."""
_LINE: list[tuple[LlvmType, str]] = [(PTR, "here"), (PTR, "other"), (I64, "count"), (I1, "away"), (I64, "depth"), (I64, "threads")]
SPLIT_BYTES, NEAR_BYTES = 6 << 20, 1 << 21
"""Of a line from which it is split, and of its parts: smaller ones are not faster, and take more passes through memory."""
_SHARED = ("here", "other", "counters", "count", "buckets", "away", "depth")
"""What the threads know that sort the parts of a line: where they lie and where as much room is, and how they were made."""


def _context(w: FunctionWriter, here: LlvmValue, other: LlvmValue, counters: LlvmValue, *numbers: LlvmValue) -> LlvmValue:
    """What threads know, in memory."""
    context = w.alloca(I64, len(_SHARED), 8)
    pointers = (w.convert("ptrtoint", value, "i64") for value in (here, other, counters))
    for part, value in enumerate((*pointers, *numbers)):
        w.store(value, w.offset(context, constant(I64, part), I64))
    return context


def _call_shares(w: FunctionWriter, shares: str, context: LlvmValue, threads: LlvmValue) -> None:
    """All shares, one a thread."""
    several, alone, done = w.label("several"), w.label("alone"), w.label("shared")
    w.branch_if(w.compare("sgt", threads, constant(I64, 1)), several, alone)
    w.start(several)
    call_team(w, shares, context, threads)
    w.branch(done)
    w.start(alone)
    w.call_void(shares, context, constant(I64, 0), constant(I64, 1))
    w.branch(done)
    w.start(done)


class _Shared:
    """What a thread reads of that, in a function of a context, the number of a share and how many shares there are."""

    def __init__(self, w: FunctionWriter) -> None:
        self.w = w
        context, number, shares = w.parameters
        self.held = {part: w.load(I64, w.offset(context, constant(I64, at), I64)) for at, part in enumerate(_SHARED)}
        self.here, self.other, self.counters = (w.convert("inttoptr", self.held[part], "ptr") for part in _SHARED[:3])
        share = w.binary("udiv", w.add(self.held["count"], w.sub(shares, constant(I64, 1))), shares)
        self.first = w.mul(number, share)
        self.behind = w.add(self.first, share)

    def is_own(self, low: LlvmValue, high: LlvmValue) -> LlvmValue:
        """Whether a part that holds keys begins in the share."""
        w = self.w
        own = w.binary("and", w.compare("sge", low, self.first), w.compare("slt", low, self.behind))
        return w.binary("and", own, w.compare("slt", low, high))
