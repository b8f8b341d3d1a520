"""Codes 06xx: warnings and notes. `--strict` makes warnings errors; notes stay notes."""

from compiler.codes.entry import code

CODES = (
    code(
        "0601",
        "elements never written",
        """Some elements of the result are written by no iteration. They are 0.""",
        "let x = zeros(8)\nlet y = compute(x) {\n    for i in 0..4:\n        out[2 * i] = x[i]\n}\n",
        "let x = zeros(8)\nlet y = compute(x) {\n    for i in 0..4:\n        out[i] = x[2 * i]\n}\n",
    ),
    code(
        "0602",
        "captured tensor",
        """A compute block reads a tensor that isn't among its inputs. That works; naming it shows what the kernel reads. A note, not a
        warning.""",
        "let x = zeros(8)\nlet w = ones(8)\nlet y = compute(x) {\n    for i in 0..N:\n        out[i] = x[i] * w[i]\n}\n",
        "let x = zeros(8)\nlet w = ones(8)\nlet y = compute(x, w) {\n    for i in 0..N:\n        out[i] = x[i] * w[i]\n}\n",
    ),
    code(
        "0604",
        "value of a compute block not used",
        """The block computes something that nobody reads: give it a name, or update an input with `compute(mut x)`.""",
        "let x = zeros(8)\ncompute(x) {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
        "mut x = zeros(8)\ncompute(mut x) {\n    for i in 0..N:\n        x[i] = 1.0\n}\n",
    ),
    code(
        "0605",
        "a future that nobody awaits",
        """An `@async` block gives a future, and nothing asks for its value. The block still runs, and what goes wrong in it shows when the
        program ends.""",
        "let x = zeros(8)\nlet f = compute(x) @async {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
        "let x = zeros(8)\nlet f = compute(x) @async {\n    for i in 0..N:\n        out[i] = x[i]\n}\nlet y = await f\n",
    ),
    code(
        "0606",
        "a signal that isn't always reached",
        """A signal remembers the values of its calls. Inside an `if`, a `match` or a loop it only sees those for which it is reached, which
        is rarely meant.""",
        "fn turn(x: f64, busy: bool) -> f64 {\n  if busy { ema(x, 12) } else { 0.0 }\n}\n",
        "fn turn(x: f64, busy: bool) -> f64 {\n  let mean = ema(x, 12)\n  if busy { mean } else { 0.0 }\n}\n",
        language="quantdsl",
    ),
    code(
        "0607",
        "a function with the name of a method",
        """A function of a program has a name that every compiled program has from Python, such as `run` or `warnings`: as an attribute it
        can't be reached there. `program.functions["run"]` gives it.""",
    ),
    code(
        "0608",
        "a name of the library is shadowed",
        """The program declares a name that the library has. From there on the name means the program's own, in host code and in compute
        blocks alike. Variables with the name of a function are warned of only where something calls them. In QuantDSL states, constants,
        parameters and functions are warned of, and a variable of one body where it hides a value.""",
        "def max(a: float, b: float): float { a + b }\nprintln(max(1.0, 2.0))\n",
        "def total(a: float, b: float): float { a + b }\nprintln(total(1.0, 2.0))\n",
    ),
    code(
        "0609",
        "a comment that looks like a division",
        """`//` begins a comment, so `7 // 2` is 7. Ints are divided by `/`, which rounds toward zero. Only a number right behind `//`,
        alone or in an expression, gives this warning; words in the comment, or two spaces before it, keep it away.""",
        "let n = 9\nlet half = n // 2\nprintln(half)\n",
        "let n = 9\nlet half = n / 2 // rounded\nprintln(half)\n",
    ),
    code(
        "0610",
        "an annotation without effect",
        """The annotation is valid, and results don't depend on it, but the schedule of the device on which the block runs can't follow it:
        the message names the device and says why. With `--strict` it is an error.""",
        'let x = arange(0, 8)\nlet y = compute(x) @device("cpu") {\n    @unroll(16)\n    for i in 0..N: out[i] = x[i]\n}\nprintln(y)\n',
        'let x = arange(0, 8)\nlet y = compute(x) @device("cpu") {\n    @unroll(4)\n    for i in 0..N: out[i] = x[i]\n}\nprintln(y)\n',
    ),
    code(
        "0620",
        "a `catch` that nothing reaches",
        """A `catch` before it takes the same type, or all: `_` takes anything, `Error` every fault of the run. The first `catch` that takes
        an error is the one that runs.""",
        'try {\n    println([1][3])\n} catch _ {\n    println("anything")\n} catch IndexError {\n    println("an index")\n}\n',
        'try {\n    println([1][3])\n} catch IndexError {\n    println("an index")\n} catch _ {\n    println("anything")\n}\n',
    ),
    code(
        "0621",
        "a call of a deprecated function",
        """The function is marked with `@deprecated("...")`, whose text says what to use instead.""",
        '@deprecated("use `area`")\ndef surface(x: int): int { x * x }\nprintln(surface(2))\n',
        "def area(x: int): int { x * x }\nprintln(area(2))\n",
    ),
    code(
        "0622",
        "a private name of another module",
        """A name that begins with `_` is private to its module, and may change with it. `from m import *` leaves such names out.""",
    ),
)
