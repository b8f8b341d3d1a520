"""Codes 04xx: what a compute block may say and do."""

from compiler.codes.entry import code

_VECTOR = "let x = zeros(8)\n"

_SHARED = (
    "let x = ones(64)\nlet y = compute(x) -> tensor[64] @kernel(custom) @workgroup(64) {\n"
    "    shared var buf[64, f32]\n    let t = thread_idx().x\n    buf[t] = x[t]\n"
)

CODES = (
    code(
        "0401",
        "unknown kernel kind or annotation",
        """There is no such kernel kind, annotation or operator of a kind.""",
        _VECTOR + "let y = compute(x) @kernel(elemntwise) {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
        _VECTOR + "let y = compute(x) @kernel(elementwise) {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
    ),
    code(
        "0402",
        "annotation repeated or misplaced",
        """An annotation stands twice with different values, contradicts another one, or stands where it has no meaning.""",
        _VECTOR + "let y = compute(x) @workgroup(64) @workgroup(128) {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
        _VECTOR + "let y = compute(x) @workgroup(64) {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
    ),
    code(
        "0403",
        "body isn't what `@kernel` promises",
        """`@kernel(kind)` is a promise about the loops, and it is checked. Leave the kind out and it is inferred, or change the
        body.""",
        _VECTOR + "let y = compute(x) @kernel(elementwise) {\n"
        "    for i in 0..N:\n        var s = 0.0\n        for k in 0..N:\n            s += x[k]\n        out[i] = s\n}\n",
        _VECTOR + "let y = compute(x) {\n"
        "    for i in 0..N:\n        var s = 0.0\n        for k in 0..N:\n            s += x[k]\n        out[i] = s\n}\n",
    ),
    code(
        "0404",
        "race: two iterations write one element",
        """Iterations of the leading loops run in any order, so no two of them may write the same element. The message gives two
        concrete iterations and the element that both write. Sum them up with `out[...] += ...` or a `reduce`; in a `custom`
        kernel `atomic_add` does it.""",
        "let a = zeros(4, 4)\nlet y = compute(a) {\n    for i in 0..M, j in 0..N:\n        out[i] = a[i, j]\n}\n",
        "let a = zeros(4, 4)\nlet y = compute(a) {\n    for i in 0..M, j in 0..N:\n        out[i] += a[i, j]\n}\n",
    ),
    code(
        "0405",
        "an iteration depends on another one",
        """An iteration reads what another iteration of the leading loops writes, so they can't run in any order. A value handed from
        one iteration to the next is a `scan`. In a function that is `@vectorizable` the same is said of the turns of its innermost
        loops.""",
        _VECTOR + "let y = compute(x) {\n    for i in 1..N:\n        out[i] = out[i - 1] + x[i]\n}\n",
        _VECTOR + "let y = compute(x) @kernel(scan, +) {\n    for i in 0..N:\n        yield x[i]\n}\n",
    ),
    code(
        "0406",
        "index of a write isn't affine",
        """Where a kernel writes must follow from its loop variables alone: sums and multiples of them. Otherwise nothing shows that
        two iterations write different elements. What is added up, multiplied, or the largest or smallest (`+=`, `max`) may go anywhere.""",
        _VECTOR + "let k = tensor([3, 1, 2])\n"
        "let y = compute(x, k) -> tensor[8] {\n    for i in 0..3:\n        out[k[i]] = x[i]\n}\n",
        _VECTOR + "let k = tensor([3, 1, 2])\n"
        "let y = compute(x, k) -> tensor[8] {\n    for i in 0..3:\n        out[k[i]] += x[i]\n}\n",
    ),
    code(
        "0407",
        "index isn't an int",
        """Only ints count elements. Convert with `as`, and look whether the name was declared anew with another type.""",
        _VECTOR + "let i = 1.5\nprintln(x[i])\n",
        _VECTOR + "let i = 1.5\nprintln(x[i as int])\n",
    ),
    code(
        "0408",
        "`yield` missing or misplaced",
        """`yield` hands a value to the reduction, scan or sort that the block is. Such a block needs one and doesn't write `out`;
        outside of compute blocks there is no `yield`.""",
        _VECTOR + "let s = compute(x) @kernel(reduce, +) {\n    for i in 0..N:\n        out[i] = x[i]\n}\n",
        _VECTOR + "let s = compute(x) @kernel(reduce, +) {\n    for i in 0..N:\n        yield x[i]\n}\n",
    ),
    code(
        "0409",
        "write to an input or a captured tensor",
        """Inputs are read only. `compute(mut x)` updates `x` itself. A block that writes no `out` may write to one input: it works on
        a copy, which is the block's value.""",
        _VECTOR + "let y = compute(x) {\n    for i in 0..N:\n        out[i] = x[i]\n        x[i] = 0.0\n}\n",
        "mut x = zeros(8)\nlet y = compute(mut x) {\n    for i in 0..N:\n        x[i] = 1.0\n}\n",
    ),
    code(
        "0410",
        "not allowed in a kernel",
        """A kernel computes numbers. It has no strings, lists, printing, files or recursion, and calls only functions of numbers. The
        same is asked of a QuantDSL function that is `@gpu_compute`: neither it nor what it calls sends orders, writes states or reads the
        market.""",
        _VECTOR + "let y = compute(x) {\n    for i in 0..N:\n        println(x[i])\n        out[i] = x[i]\n}\n",
        _VECTOR + "let y = compute(x) {\n    for i in 0..N:\n        out[i] = x[i]\n}\nprintln(y)\n",
    ),
    code(
        "0411",
        "barrier reached by some threads only",
        """All threads of a block wait at a `barrier()` until the last one comes. In a branch or loop that only some of them enter
        they would wait for ever.""",
        "let x = ones(64)\nlet y = compute(x) -> tensor[64] @kernel(custom) @workgroup(64) {\n"
        "    let t = thread_idx().x\n    if t < 32:\n        barrier()\n    out[t] = x[t]\n}\n",
        "let x = ones(64)\nlet y = compute(x) -> tensor[64] @kernel(custom) @workgroup(64) {\n"
        "    let t = thread_idx().x\n    barrier()\n    if t < 32:\n        out[t] = x[t]\n}\n",
    ),
    code(
        "0412",
        "shared memory read too early",
        """A thread reads shared memory that no thread has written, or that another one may be writing at the same time because no
        `barrier()` stands between. What can't be seen before the program runs is found by `--sanitize`, exit code 1.""",
        _SHARED + "    out[t] = buf[63 - t]\n}\n",
        _SHARED + "    barrier()\n    out[t] = buf[63 - t]\n}\n",
    ),
    code(
        "0413",
        "word of `custom` kernels elsewhere",
        """Thread indices, barriers, shared variables, atomics and warp operations exist in kernels of the kinds `custom` and, for
        barriers and shared variables, `fused`.""",
        _VECTOR + "let y = compute(x) {\n    for i in 0..N:\n        out[thread_idx().x] = x[i]\n}\n",
        _VECTOR + "let y = compute(x) -> tensor[8] @kernel(custom) @workgroup(8) {\n"
        "    let t = thread_idx().x\n    out[t] = x[t]\n}\n",
    ),
    code(
        "0414",
        "race on global memory",
        """Two threads of a `custom` kernel are at one element of a tensor at the same time, at least one of them writes, and they are
        not both atomic. A `barrier()` orders the threads of one block; nothing but atomics with fences orders two blocks. It is found
        by `--sanitize`, which runs the program on the emulator; exit code 1.""",
        "let x = arange(0, 64)\nlet y = compute(x) -> tensor[32] @kernel(custom) @workgroup(32) @grid(2) {\n"
        "    let i = global_idx().x\n    out[i / 2] = x[i]\n}\n",
        "let x = arange(0, 64)\nlet y = compute(x) -> tensor[32] @kernel(custom) @workgroup(32) @grid(2) {\n"
        "    let i = global_idx().x\n    atomic_add(out[i / 2], x[i])\n}\n",
        sanitize=True,
    ),
    code(
        "0415",
        "warp operation with inactive lanes",
        """The 32 threads of a warp exchange values together. A shuffle, vote, match or sum that only some of them reach, or that reads
        a lane which isn't there, has no defined result. It is found by `--sanitize`, which runs the program on the emulator; exit
        code 1.""",
        "let x = ones(32)\nlet y = compute(x) -> tensor[32] @kernel(custom) @workgroup(32) {\n"
        "    let t = thread_idx().x\n    if t < 16:\n        out[t] = warp_shuffle_down(x[t], 1)\n}\n",
        "let x = ones(32)\nlet y = compute(x) -> tensor[32] @kernel(custom) @workgroup(32) {\n"
        "    let t = thread_idx().x\n    let next = warp_shuffle_down(x[t], 1)\n    if t < 16:\n        out[t] = next\n}\n",
        sanitize=True,
    ),
    code(
        "0416",
        "threads wait for each other",
        """No thread of a launch can go on: each waits at a counting barrier (`mbar.wait`), for its warpgroup, cluster or grid, or for
        registers, and what it waits for doesn't come. Kernels made from loops have no such waits; schedules and kernels written in HIR
        do. The emulator finds it, and says where each warp stands; on a GPU the launch would never end.""",
    ),
    code(
        "0417",
        "the axis can't be split over devices",
        """Each device of `@device([...]) @parallel(data)` computes a range of the results along one axis, from the same range of the
        inputs. So every result is written by an independent loop over one size, at its index, or is a number that such a loop
        combines in any order; an input is read at that index alone, or whole; and neither the index nor the size is used as a number.
        The message says which of these doesn't hold, and where.""",
        _VECTOR + "let y = compute(x) @device([\"cpu\", \"emulator\"]) @parallel(data) {\n"
        "    for i in 0..N:\n        out[i] = x[i] * (i as f32)\n}\n",
        _VECTOR + "let y = compute(x, at = arange(0, 8)) @device([\"cpu\", \"emulator\"]) @parallel(data) {\n"
        "    for i in 0..N:\n        out[i] = x[i] * at[i]\n}\n",
    ),
    code(
        "0420",
        "a function isn't what its annotation promises",
        """`@jit` says that a function is compiled to native code, `@no_allocation` that it makes nothing on a heap, `@vectorizable` that
        its loops run in vectors, `@gpu_compute` that it computes as a kernel does, `@inline_always` that it becomes part of its callers.
        What keeps the function from that is named, with its place; `zyntax explain` lists all reasons.""",
        "@jit\ndef twice(xs: list[int]): int { xs.len() * 2 }\nprintln(twice([1]))\n",
        "@jit\ndef twice(n: int): int { n * 2 }\nprintln(twice(1))\n",
    ),
)
