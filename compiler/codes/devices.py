"""Codes 05xx: devices and their limits."""

from compiler.codes.entry import code

_COPY = "{\n    for i in 0..N:\n        out[i] = x[i]\n}\n"

CODES = (
    code(
        "0501",
        "device unknown or absent",
        """The program or the command names a device that isn't in this machine or that this version can't use; its driver is too old for
        the code; or two inputs of a block were put on two GPUs, and nothing says on which it runs. `auto` takes what is there;
        `fallback="cpu"` states what else will do; `--device` on the command line overrides all.""",
        f'let x = zeros(8)\nlet y = compute(x) @device("cuda") {_COPY}',
        f'let x = zeros(8)\nlet y = compute(x) @device("cuda", fallback = "cpu") {_COPY}',
        runs=True,
    ),
    code(
        "0502",
        "too many threads in a block",
        """A block has at most 1024 threads, and at most 64 along z.""",
        f"let x = zeros(8)\nlet y = compute(x) @workgroup(64, 32) {_COPY}",
        f"let x = zeros(8)\nlet y = compute(x) @workgroup(32, 32) {_COPY}",
    ),
    code(
        "0503",
        "too much memory of a block or of an iteration",
        """The block asks for more shared memory than any device has, or has an array of which each iteration would need more than a GPU
        has for each of its threads.""",
        f"let x = zeros(8)\nlet y = compute(x) @shared(300000) {_COPY}",
        f"let x = zeros(8)\nlet y = compute(x) {_COPY}",
    ),
    code(
        "0504",
        "dtype not supported here",
        """The operation doesn't exist for elements of this dtype, or `@tensor_cores(on)` stands at what the device's tensor cores can't
        multiply.""",
        "let x = zeros(8)\nlet y = compute(x) -> tensor[8, f32] @kernel(custom) @workgroup(8) {\n"
        "    atomic_xor(out[0], 1)\n}\n",
        "let x = zeros(8)\nlet y = compute(x) -> tensor[8, i32] @kernel(custom) @workgroup(8) {\n"
        "    atomic_xor(out[0], 1)\n}\n",
    ),
    code(
        "0505",
        "options of the command don't go together",
        """An option of `zyntax` names something that isn't there, or doesn't go with the other options that are given; or a variable of
        the environment has a value that can't be. The message says what there is.""",
    ),
    code(
        "0506",
        "a package isn't installed",
        """What the program or the command asks for needs a package of an extra that isn't installed here, or can't be loaded: `data` for
        Parquet, zstd, dates in CSV files and the tables of a replay, `pictures` for `render`, for png and jpg files, and for `--png`. The
        hint is the command that installs it; `pip install 'zyntax-lang[all]'` installs everything.""",
    ),
)
