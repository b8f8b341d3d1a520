"""Codes 08xx and 09xx: what shows only when a program runs."""

from compiler.codes.entry import code

_SLOW = """let x = tensor([0.5])
let f = compute(x) @async @kernel(reduce, +) {
    for i in 0..N:
        var s = x[i]
        for k in 0..100_000_000:
            s = s * s + 0.25
        yield s
}
"""

CODES = (
    code(
        "0801",
        "index out of range",
        """An index that was known only as the program ran is outside of its axis or list. In a kernel the fault is the first one in
        the written order of its loops, however many threads ran, and inputs that it updates keep their old values.""",
        "let x = zeros(8)\nlet k = tensor([3, 9])\nlet y = compute(x, k) {\n    for i in 0..N:\n        out[i] = x[k[i]]\n}\n",
        "let x = zeros(8)\nlet k = tensor([3, 7])\nlet y = compute(x, k) {\n    for i in 0..N:\n        out[i] = x[k[i]]\n}\n",
        runs=True,
    ),
    code(
        "0802",
        "sizes don't fit at launch",
        """Shapes that were known only as the program ran give one size two values, or contradict a declared type.""",
        "def add(a: tensor, b: tensor): tensor {\n    compute(a, b) {\n        for i in 0..N:\n            out[i] = a[i] + b[i]\n    }\n}\n"
        "println(add(zeros(3), zeros(4)))\n",
        "def add(a: tensor, b: tensor): tensor {\n    compute(a, b) {\n        for i in 0..N:\n            out[i] = a[i] + b[i]\n    }\n}\n"
        "println(add(zeros(3), zeros(3)))\n",
        runs=True,
    ),
    code(
        "0803",
        "reduction of nothing",
        """`min`, `max`, `argmin` and `argmax` of no elements have no value. Sums and products do: 0 and 1.""",
        "println(max(zeros(0)))\n",
        "println(sum(zeros(0)))\n",
        runs=True,
    ),
    code(
        "0804",
        "out of memory",
        """A tensor is larger than the memory that is free, or has more elements than any memory can hold.""",
        "let n = 1_000_000_000_000_000\nlet x = zeros(n)\n",
        "let n = 1_000\nlet x = zeros(n)\n",
        runs=True,
    ),
    code(
        "0805",
        "device fault",
        """A device stopped while it ran a kernel, or refused it. The message shows the block that ran. On the CPU there is no such
        fault: kernels check there.""",
    ),
    code(
        "0806",
        "integer fault",
        """An integer division by zero, or a result or a cast that doesn't fit its type. In kernels ints wrap around, and only division
        by zero stops.""",
        "let a = 0\nprintln(7 / a)\n",
        "let a = 2\nprintln(7 / a)\n",
        runs=True,
    ),
    code(
        "0807",
        "file or value from outside doesn't fit",
        """A file is missing or damaged, or holds another dtype or shape than the program says; an argument from Python or a `--set`
        has the wrong kind; a file can't be written. A row of market data can't be used: the message names file, row, column and text, and
        the exit code is 3.""",
        'let t = load("nowhere.npy") as tensor[N, f32]\n',
        "let t = zeros(3)\n",
        runs=True,
    ),
    code(
        "0808",
        "assertion failed",
        """An `assert` didn't hold, a value was asked of nothing, or functions call each other without end.""",
        'let n = 3\nassert(n == 4, "n is four")\n',
        'let n = 4\nassert(n == 4, "n is four")\n',
        runs=True,
    ),
    code(
        "0809",
        "interrupted",
        """The run was stopped from outside, by Ctrl-C or a signal. The exit code is 130.""",
    ),
    code(
        "0810",
        "not ready in time",
        """The time of `await f timeout 1s` is over, and the value is not there. `else` behind it says what to use instead. Which of
        the two happens depends on the machine: a program whose result must not leaves the limit out.""",
        _SLOW + "let y = await f timeout 0ms\n",
        _SLOW + "let y = await f timeout 0ms else 0.0\n",
        runs=True,
    ),
    code(
        "0811",
        "timing isn't what was asked for",
        """`zyntax run --enforce p99` was given, and that percentile of the measured latency of the handlers is above the shortest
        `@target_latency` of the strategy: the outputs are complete, and the exit code is 4. As a note: the system doesn't let the loop
        run on the core of `@cpu_affinity`.""",
    ),
    code(
        "0812",
        "more at once than a replay keeps",
        """A replay works in memory of fixed size: 1024 open orders, 8192 requests and as many reports on their way, 8192 open fills under
        `accounting fifo`; and handlers that answer their own reports without end never let time go on. Orders beyond those limits are
        refused by the risk block; what can't be refused stops the handler, or the run. One event leaves up to 16384 records of
        each output; of the log the oldest are dropped and counted, of all others none ever is: the run stops. A latency, or a `rate` in the
        risk block, keeps a strategy from it.""",
    ),
    code(
        "0813",
        "inputs that share memory",
        """A block updates an input, and another of its inputs has elements in the same memory: two names of one tensor, overlapping slices,
        one array that Python gave for two parameters. What the block would read there depends on what it has written already. A copy
        (`.clone()`, from Python `.copy()`) says that the elements from before the block are meant. Views without a common element, such as
        `x[::2]` and `x[1::2]`, are separate inputs. A block that assigns to an input without `mut` works on a copy of its own.""",
        "mut x = arange(0, 8)\nlet y = x\ncompute(mut x, y) {\n    for i in 0..N:\n        x[i] = x[i] + y[N - 1 - i]\n}\n",
        "mut x = arange(0, 8)\nlet y = x.clone()\ncompute(mut x, y) {\n    for i in 0..N:\n        x[i] = x[i] + y[N - 1 - i]\n}\n",
        runs=True,
    ),
    code(
        "0820",
        "thrown and not caught",
        """A program says `throw`, and no `catch` around it, nor around a call that leads to it, names the type of what is thrown. `catch _`
        takes anything.""",
        'struct Refused { why: String }\nthrow Refused { why: "closed" }\n',
        'struct Refused { why: String }\ntry {\n    throw Refused { why: "closed" }\n} catch Refused as r {\n    println(r.why)\n}\n',
        runs=True,
    ),
    code(
        "0901",
        "internal fault",
        """A fault of the compiler itself, not of the program. Please report it with the program.""",
    ),
    code(
        "0902",
        "fault of a language",
        """A fault of the package that brings the language of the program: its code failed while it read the program. The message names
        its file and line; `ZYNTAX_TRACEBACK=1` in the environment shows the whole traceback. The program is not at fault.""",
    ),
)
