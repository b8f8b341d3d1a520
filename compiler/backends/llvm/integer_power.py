"""Powers of integers, by squaring, as a function of the module. They wrap; a negative exponent gives what the real power
truncates to: 0, but 1 for the base 1 and 1 or -1 for the base -1."""

from compiler.backends.llvm.types import I1
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant


def integer_power(w: FunctionWriter, base: LlvmValue, exponent: LlvmValue, unsigned: bool) -> LlvmValue:
    """base ** exponent; lane by lane, for the loop's length depends on the exponent."""
    if base.type.lanes:
        result = LlvmValue(base.type, "poison")
        for lane in range(base.type.lanes):
            power = integer_power(w, w.extract(base, lane), w.extract(exponent, lane), unsigned)
            result = w.insert(result, power, lane)
        return result
    type = base.type
    if type == I1:
        return w.select(exponent, base, constant(I1, 1))
    sort = "u" if unsigned else "s"

    def make(name: str) -> None:
        f = w.module.function(name, type, [(type, "base"), (type, "exponent")], "internal")
        first, second = f.parameters
        cells = [f.alloca(type) for _ in range(3)]
        f.store(constant(type, 1), cells[0])
        f.store(first, cells[1])
        f.store(second, cells[2])
        if not unsigned:
            with f.when(f.compare("slt", second, constant(type, 0))):
                odd = f.convert("trunc", second, "i1")
                sign = f.select(odd, constant(type, -1), constant(type, 1))
                other = f.select(f.compare("eq", first, constant(type, -1)), sign, constant(type, 0))
                f.ret(f.select(f.compare("eq", first, constant(type, 1)), constant(type, 1), other))
        head, body, done = f.label("head"), f.label("body"), f.label("done")
        f.start(head)
        left = f.load(type, cells[2])
        f.branch_if(f.compare("ne", left, constant(type, 0)), body, done)
        f.start(body)
        square, total = f.load(type, cells[1]), f.load(type, cells[0])
        odd = f.convert("trunc", left, "i1")
        f.store(f.select(odd, f.binary("mul", total, square), total), cells[0])
        f.store(f.binary("mul", square, square), cells[1])
        f.store(f.binary("lshr", left, constant(type, 1)), cells[2])
        f.branch(head)
        f.start(done)
        f.ret(f.load(type, cells[0]))

    name = w.module.helper(f"zyn.ipow.{sort}.{type.suffix}", make)
    return w.call(name, type, base, exponent)
