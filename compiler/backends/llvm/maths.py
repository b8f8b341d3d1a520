"""Arithmetic for writing math functions: one object that knows the function under construction and its type, scalar or
vector, `float` or `double`, and gives polynomials, powers of two and the parts of a float."""

from collections.abc import Sequence

from compiler.backends.llvm import coefficients
from compiler.backends.llvm.types import I32, LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant, has_feature
from runtime.records import frozen

WHOLE = 512
"""Bits of the vectors whose floats AVX-512 takes apart."""


@frozen
class Maths:
    w: FunctionWriter
    type: LlvmType

    @property
    def double(self) -> bool:
        return self.type.element == "double"

    @property
    def device(self) -> bool:
        """Whether the code is for a GPU, where integer instructions and comparisons have half the rate of a fused multiply-add."""
        return self.w.module.backend == "NVPTX"

    @property
    def takes_apart(self) -> bool:
        """Whether the machine has instructions for the parts of floats, as AVX-512 has for whole vectors."""
        return self.type.bits * self.type.lanes % WHOLE == 0 < self.type.lanes and has_feature(self.w.module, "avx512f")

    @property
    def integer(self) -> LlvmType:
        return self.type.of("i64" if self.double else "i32")

    @property
    def mantissa(self) -> int:
        return 52 if self.double else 23

    @property
    def bias(self) -> int:
        return 1023 if self.double else 127

    def pick(self, single: float, double: float) -> LlvmValue:
        return self.number(double if self.double else single)

    def number(self, value: float) -> LlvmValue:
        return constant(self.type, value)

    def int(self, value: int) -> LlvmValue:
        return constant(self.integer, value)

    def add(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        return self.w.binary("fadd", a, b)

    def sub(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        return self.w.binary("fsub", a, b)

    def mul(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        return self.w.binary("fmul", a, b)

    def div(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        return self.w.binary("fdiv", a, b)

    def quotient(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """a / b where b and the quotient are far from overflow and from subnormals. On a GPU by the hardware's reciprocal, corrected
        twice: it rounds as a division does, without its branch."""
        if self.double or not self.device:
            return self.div(a, b)
        guess = self.reciprocal(b)
        r = self.fma(guess, self.fma(self.neg(b), guess, self.number(1.0)), guess)
        q = self.mul(a, r)
        return self.fma(self.fma(self.neg(q), b, a), r, q)

    def about(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """a / b by a GPU's division that is right to 2 units in the last place, in all of the range."""
        element = self.type.with_lanes(0)

        def divided(x: LlvmValue, y: LlvmValue) -> LlvmValue:
            return self.w.assembly("div.full.f32 $0, $1, $2;", [element], "f,f", [x, y], pure=True)[0]

        if not a.type.lanes:
            return divided(a, b)
        quotients = a
        for lane in range(a.type.lanes):
            quotients = self.w.insert(quotients, divided(self.w.extract(a, lane), self.w.extract(b, lane)), lane)
        return quotients

    def reciprocal(self, b: LlvmValue) -> LlvmValue:
        """A GPU's approximation of 1/b, right to an ulp of f32."""
        return self._approximated("rcp", b)

    def root_reciprocal(self, b: LlvmValue) -> LlvmValue:
        """The same of the reciprocal of b's root."""
        return self._approximated("rsqrt", b)

    def _approximated(self, operator: str, b: LlvmValue) -> LlvmValue:
        element, name = self.type.with_lanes(0), f"llvm.nvvm.{operator}.approx.ftz.{'d' if self.double else 'f'}"
        if not b.type.lanes:
            return self.w.call(name, element, b)
        results = b
        for lane in range(b.type.lanes):
            results = self.w.insert(results, self.w.call(name, element, self.w.extract(b, lane)), lane)
        return results

    def neg(self, a: LlvmValue) -> LlvmValue:
        return self.w.value(a.type, f"fneg {a}")

    def fma(self, a: LlvmValue, b: LlvmValue, c: LlvmValue) -> LlvmValue:
        return self.w.intrinsic("fma", a, b, c)

    def abs(self, a: LlvmValue) -> LlvmValue:
        return self.w.intrinsic("fabs", a)

    def sqrt(self, a: LlvmValue) -> LlvmValue:
        return self.w.intrinsic("sqrt", a)

    def sign_of(self, size: LlvmValue, sign: LlvmValue) -> LlvmValue:
        """`size` with the sign of `sign`."""
        return self.w.intrinsic("copysign", size, sign)

    def select(self, condition: LlvmValue, then: LlvmValue, otherwise: LlvmValue) -> LlvmValue:
        return self.w.select(condition, then, otherwise)

    def is_(self, predicate: str, a: LlvmValue, b: LlvmValue | float) -> LlvmValue:
        """A comparison of floats: `olt`, `oeq`, `uno` ..."""
        return self.w.compare(predicate, a, b if isinstance(b, LlvmValue) else self.number(b))

    def either(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        return self.w.binary("or", a, b)

    def both(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        return self.w.binary("and", a, b)

    def bits(self, a: LlvmValue) -> LlvmValue:
        return self.w.convert("bitcast", a, self.integer.element)

    def from_bits(self, a: LlvmValue) -> LlvmValue:
        return self.w.convert("bitcast", a, self.type.element)

    def coefficients(self, name: str) -> tuple[float, ...]:
        return (coefficients.F64 if self.double else coefficients.F32)[name]

    def polynomial(self, name: str, x: LlvmValue) -> LlvmValue:
        """Of the table's coefficients, by Horner's rule."""
        return self.horner(self.coefficients(name), x)

    def in_four(self, name: str, x: LlvmValue) -> LlvmValue:
        """A long polynomial as four of every fourth coefficient, whose sums don't wait for each other; on a GPU other threads go on
        meanwhile. For what is only added to something larger, as it rounds otherwise than by Horner's rule."""
        if self.device:
            return self.polynomial(name, x)
        numbers = self.coefficients(name)
        square = self.mul(x, x)
        fourth = self.mul(square, square)
        a, b, c, d = (self.horner(numbers[part::4], fourth) for part in range(4))
        return self.fma(square, self.fma(d, x, c), self.fma(b, x, a))

    def horner(self, numbers: Sequence[float], x: LlvmValue) -> LlvmValue:
        total = self.number(numbers[-1])
        for number in reversed(numbers[:-1]):
            total = self.fma(total, x, self.number(number))
        return total

    def nearest(self, product: tuple[LlvmValue, LlvmValue]) -> tuple[LlvmValue, LlvmValue]:
        """The product of two floats rounded to an integer, as float and as int, when it is below 2**21 (2**50 in f64): adding
        1.5 * 2**23 leaves it in the last places."""
        magic = self.number(1.5 * 2.0**self.mantissa)
        moved = self.fma(*product, magic)
        number = self.sub(moved, magic)
        return number, self.w.binary("sub", self.bits(moved), self.bits(magic))

    def power_of_two(self, n: LlvmValue) -> LlvmValue:
        """2**n of an int whose power is a normal number."""
        biased = self.w.binary("add", n, self.int(self.bias))
        return self.from_bits(self.w.binary("shl", biased, self.int(self.mantissa)))

    def scale(self, x: LlvmValue, n: LlvmValue, number: LlvmValue | None = None) -> LlvmValue:
        """x * 2**n, in two steps so that each factor is normal; the last one rounds. `number`: n as a float."""
        if number is not None and self.takes_apart:
            return self._in_whole_vectors("scalef", [x, number])
        if self.device:
            biased = self.w.binary("add", n, self.int(2 * self.bias))
            half = self.w.binary("shl", self.w.binary("lshr", biased, self.int(1)), self.int(self.mantissa))
            rest = self.w.binary("sub", self.w.binary("shl", biased, self.int(self.mantissa)), half)
            return self.mul(self.mul(x, self.from_bits(half)), self.from_bits(rest))
        half = self.w.binary("ashr", n, self.int(1))
        rest = self.w.binary("sub", n, half)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(rest))

    def parts(self, x: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """m and e of x = m * 2**e, m from 1 to 2; NaN and NaN below 0, 1 and the logarithm itself of 0 and infinity."""
        return self._in_whole_vectors("getmant", [x], [constant(I32, 2 << 2)]), self._in_whole_vectors("getexp", [x])

    def _in_whole_vectors(self, name: str, operands: Sequence[LlvmValue], mode: Sequence[LlvmValue] = ()) -> LlvmValue:
        """What an instruction of AVX-512 gives, without a mask and in the current rounding."""
        w, lanes = self.w, WHOLE // self.type.bits
        type, every, rounding = self.type.with_lanes(lanes), constant(LlvmType(f"i{lanes}"), -1), constant(I32, 4)
        made: list[LlvmValue] = []
        for start in range(0, self.type.lanes, lanes):
            parts = [part if part.type == type else w.shuffle(part, None, range(start, start + lanes)) for part in operands]
            text = f"llvm.x86.avx512.mask.{name}.{'pd' if self.double else 'ps'}.512"
            made.append(w.call(text, type, *parts, *mode, parts[0], every, rounding))
        while len(made) > 1:
            made = [w.shuffle(a, b, range(2 * a.type.lanes)) for a, b in zip(made[::2], made[1::2], strict=True)]
        return made[0]

    def clamp(self, x: LlvmValue, low: float, high: float) -> LlvmValue:
        """x moved into the range; NaN stays."""
        if self.device:
            return self.w.intrinsic("maximum", self.w.intrinsic("minimum", x, self.number(high)), self.number(low))
        x = self.select(self.is_("ogt", x, high), self.number(high), x)
        return self.select(self.is_("olt", x, low), self.number(low), x)

    def at_most(self, x: LlvmValue, high: float) -> LlvmValue:
        """The lesser of x and the number; of NaN either."""
        if self.device:
            return self.w.intrinsic("minimum", x, self.number(high))
        return self.select(self.is_("olt", x, high), x, self.number(high))

    def two_sum(self, a: LlvmValue, b: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """a + b and its rounding error, where |a| >= |b|."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def widened(self) -> "Maths":
        return Maths(self.w, self.type.of("double"))

    def widen(self, x: LlvmValue) -> LlvmValue:
        return self.w.convert("fpext", x, "double")

    def narrow(self, x: LlvmValue) -> LlvmValue:
        return self.w.convert("fptrunc", x, "float")
