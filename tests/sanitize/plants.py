"""Kernels with one fault each. The lines that the message must name are marked: `//!` one of them, `//!!` both in one line (an access
that meets itself in another thread).

`k` holds the numbers 0 to 127: an index through it is one that only running shows."""

from attrs import frozen


@frozen
class Plant:
    """A program with a fault, and the code that must name the marked lines."""

    name: str
    code: str
    text: str


def kernel(body: str, result: str = "tensor[64]", block: str = "64", grid: str = "1") -> str:
    lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    return f"""let x = arange(0, 128)
let k = arange(0, 128, dtype=i32)
let y = compute(x, k) -> {result} @kernel(custom) @workgroup({block}) @grid({grid}) {{
    let t = thread_idx().x
    let b = block_idx().x
{lines}
}}
"""


# fmt: off
PLANTS: list[Plant] = []


def plant(name: str, code: str, body: str, result: str = "tensor[64]", block: str = "64", grid: str = "1") -> None:
    PLANTS.append(Plant(name, code, kernel(body, result, block, grid)))


# ---- shared memory: a barrier is missing ---------------------------------------------------------------------------------

plant("reversed without a barrier", "0412", """
shared var s[64]
s[k[t]] = x[t]        //!
out[t] = s[63 - t]    //!
""")
plant("the next one without a barrier", "0412", """
shared var s[65]
s[k[t]] = x[t]        //!
if t == 0: s[64] = 0.0
out[t] = s[k[t] + 1]  //!
""")
plant("the one before without a barrier", "0412", """
shared var s[64]
s[k[t]] = x[t]        //!
if k[t] > 0: out[t] = s[k[t] - 1]    //!
""")
plant("within one warp", "0412", """
shared var s[32]
s[k[t]] = x[t]        //!
out[t] = s[31 - k[t]] //!
""", block="32")
plant("the barrier comes too late", "0412", """
shared var s[64]
s[k[t]] = x[t]        //!
let v = s[63 - t]     //!
barrier()
out[t] = v
""")
plant("read, then written anew", "0412", """
shared var s[64]
s[k[t]] = x[t]
barrier()
let v = s[63 - k[t]]  //!
s[k[t]] = v           //!
barrier()
out[t] = s[t]
""")
plant("a loop that misses its second barrier", "0412", """
shared var s[64]
var sum = 0.0
for turn in 0..3:
    s[k[t]] = x[t] + turn    //!
    barrier()
    sum += s[63 - k[t]]      //!
out[t] = sum
""")
plant("a loop that misses its first barrier", "0412", """
shared var s[64]
s[t] = 0.0
barrier()
for turn in 0..3:
    s[k[t]] = x[t] + turn    //!
    out[t] = s[63 - k[t]]    //!
    barrier()
""")
plant("a tree without barriers", "0412", """
shared var s[64]
s[t] = x[t]
barrier()
var h = k[32]
while h > 0:
    if t < h: s[t] = s[t] + s[t + h]    //!!
    h = h / 2
if t == 0: out[0] = s[0]
""", result="tensor[1]")
plant("a tree whose last steps trust the warp", "0412", """
shared var s[64]
s[t] = x[t]
barrier()
if t < 32: s[t] = s[t] + s[t + k[32]]
barrier()
if t < 16: s[t] = s[t] + s[t + k[16]]    //!
if t < 8: s[t] = s[t] + s[t + k[8]]      //!
if t == 0: out[0] = s[0]
""", result="tensor[1]")
plant("a scan in place", "0412", """
shared var s[64]
s[t] = x[t]
barrier()
if k[t] >= 1: s[t] = s[t] + s[t - 1]    //!!
barrier()
out[t] = s[t]
""")
plant("one thread fills it, all read it", "0412", """
shared var s[1]
if t == k[7]: s[0] = x[3]    //!
out[t] = s[0]                //!
""")
plant("one thread sums what all write", "0412", """
shared var s[64]
s[k[t]] = x[t]               //!
if t == 0:
    var sum = 0.0
    for j in 0..64: sum += s[j]    //!
    out[0] = sum
""", result="tensor[1]")
plant("rows for columns", "0412", """
shared var s[8, 8]
let r = k[t] / 8
let c = k[t] % 8
s[r, c] = x[t]               //!
out[t] = s[c, r]             //!
""")
plant("a window that reaches over the edge of a warp", "0412", """
shared var s[66]
s[k[t] + 1] = x[t]           //!
if t == 0:
    s[0] = 0.0
    s[65] = 0.0
out[t] = s[k[t]] + s[k[t] + 2]    //!
""")
plant("two buffers, swapped once too often", "0412", """
shared var s[2, 64]
s[0, t] = x[t]
barrier()
s[1, t] = s[0, 63 - t]       //!
out[t] = s[k[1], (k[t] + 1) % 64]    //!
""")
plant("two threads write one place", "0412", """
shared var s[64]
s[t] = 0.0
barrier()
s[k[t] / 2] = x[t]           //!!
barrier()
out[t] = s[t]
""")
plant("two warps write one place", "0412", """
shared var s[64]
s[t] = 0.0
barrier()
s[k[t] % 32] = x[t]          //!!
barrier()
out[t] = s[t]
""")
plant("a sum without atomics", "0412", """
shared var s[1]
if t == 0: s[0] = 0.0
barrier()
s[0] = s[0] + x[t]           //!!
barrier()
out[t] = s[0]
""")
plant("a histogram without atomics", "0412", """
shared var bins[8, i32]
if t < 8: bins[t] = 0
barrier()
bins[k[t] % 8] = bins[k[t] % 8] + 1    //!!
barrier()
if t < 8: out[t] = bins[t]
""", result="tensor[8, i32]")
plant("a histogram whose bins are set to zero late", "0412", """
shared var bins[8, i32]
if t < 8: bins[k[t]] = 0               //!
atomic_add(bins[k[t] % 8], 1)          //!
barrier()
if t < 8: out[t] = bins[t]
""", result="tensor[8, i32]")
plant("a histogram that is read early", "0412", """
shared var bins[8, i32]
if t < 8: bins[t] = 0
barrier()
atomic_add(bins[k[t] % 8], 1)          //!
if t < 8: out[t] = bins[k[t]]          //!
""", result="tensor[8, i32]")
plant("atomic here, plain there", "0412", """
shared var s[1, i32]
if t == 0: s[0] = 0
barrier()
if k[t] % 2 == 0: atomic_add(s[0], 1)  //!
if k[t] == 5: s[0] = 7                 //!
barrier()
out[t] = s[0]
""", result="tensor[64, i32]")
plant("a maximum by hand", "0412", """
shared var s[1]
if t == 0: s[0] = 0.0
barrier()
if x[t] > s[0]: s[0] = x[t]            //!!
barrier()
out[t] = s[0]
""")
plant("a barrier inside one branch only orders that", "0412", """
shared var s[64]
s[t] = 0.0
if b == 0: barrier()
s[k[t]] = x[t]                         //!
out[t] = s[(k[t] + 1) % 64]            //!
""")
plant("a fence is no barrier", "0412", """
shared var s[64]
s[k[t]] = x[t]                         //!
fence(block)
out[t] = s[63 - t]                     //!
""")
plant("a shuffle is no barrier", "0412", """
shared var s[32]
s[k[t]] = x[t]                         //!
let v = warp_shuffle_xor(x[t], 1)
out[t] = s[31 - t] + v                 //!
""", block="32")
plant("a vote is no barrier", "0412", """
shared var s[32]
s[k[t]] = x[t]                         //!
if warp_all(x[t] >= 0.0): out[t] = s[31 - t]    //!
""", block="32")
plant("in a block of two dimensions", "0412", """
shared var s[64]
let u = thread_idx().y
s[k[u * 8 + t]] = x[u * 8 + t]         //!
out[u * 8 + t] = s[t * 8 + u]          //!
""", block="8, 8")
plant("the sum of the block is used too early", "0412", """
shared var s[2]
let w = warp_sum(x[t])
if lane_id() == 0: s[k[t] / 32] = w    //!
out[t] = s[0] + s[1]                   //!
""")

# ---- shared memory: never written ------------------------------------------------------------------------------------------

plant("one beyond what was written", "0412", """
shared var s[65]
s[t] = x[t]
barrier()
out[t] = s[k[t] + 1]                   //!
""")
plant("half was written", "0412", """
shared var s[64]
if k[t] < 32: s[t] = x[t]
barrier()
out[t] = s[t]                          //!
""")
plant("a sum that starts with nothing", "0412", """
shared var s[64]
for j in 0..3: s[k[t]] = s[k[t]] + x[j]    //!
barrier()
out[t] = s[t]
""")
plant("atomics on bins that nobody has set", "0412", """
shared var bins[8, i32]
atomic_add(bins[k[t] % 8], 1)          //!
barrier()
if t < 8: out[t] = bins[t]
""", result="tensor[8, i32]")
plant("bins of which the last was forgotten", "0412", """
shared var bins[9, i32]
if t < 8: bins[t] = 0
barrier()
atomic_add(bins[k[t] % 9], 1)          //!
barrier()
if t < 8: out[t] = bins[t]
""", result="tensor[8, i32]")
plant("what the block before left is gone", "0412", """
shared var s[64]
if k[b] == 0: s[t] = x[t]
barrier()
out[b * 64 + t] = s[63 - t]            //!
""", result="tensor[128]", grid="2")
plant("the border of a window", "0412", """
shared var s[34]
s[k[t] + 1] = x[t]
barrier()
out[t] = s[t] + s[t + 2]               //!
""", block="32")
plant("fewer threads than the author thought", "0412", """
shared var s[128]
s[k[t]] = x[t]
barrier()
out[t] = s[t] + s[t + k[64]]           //!
""")

# ---- global memory ------------------------------------------------------------------------------------------------------------

plant("two threads write one element", "0414", "out[k[t] / 2] = x[t]    //!!")
plant("two blocks write one element", "0414", "out[t] = x[k[b * 64 + t]]    //!!", grid="2")
plant("all count without atomics", "0414", "out[0] = out[0] + x[t]    //!!", result="tensor[1]")
plant("a histogram without atomics in memory", "0414", "out[k[t] % 8] += 1.0    //!!", result="tensor[8]")
plant("atomic in one block, plain in the other", "0414", """
if k[b] == 0: atomic_add(out[0], x[t])    //!
if k[b] == 1 and t == 0: out[0] = 1.0     //!
""", result="tensor[1]", grid="2")
plant("the neighbour's result without a barrier", "0414", """
out[k[t]] = x[t]                       //!
let v = out[63 - k[t]]                 //!
barrier()
out[t] = v
""")
plant("the neighbour's result in another block", "0414", """
let i = global_idx().x
out[i] = x[i]                          //!
barrier()
let v = out[(k[i] + 64) % 128]         //!
if v < 0.0: out[i] = v
""", result="tensor[128]", grid="2")
PLANTS.append(Plant("an update in place", "0414", """mut d = arange(0, 64)
let k = arange(0, 64, dtype=i32)
compute(mut d, k) @kernel(custom) @workgroup(64) @grid(1) {
    let t = thread_idx().x
    let v = d[(k[t] + 1) % 64]         //!
    d[t] = v                           //!
}
"""))
plant("a barrier orders no two blocks", "0414", """
let i = global_idx().x
out[i] = x[i]                          //!
barrier()
if k[i] == 127: out[0] = 5.0           //!
""", result="tensor[128]", grid="2")
plant("blocks that overlap by one", "0414", """
for j in 0..2:
    let i = b * 64 + t + j * k[64]
    if i < 129: out[k[0] + i] = x[t] + b      //!!
""", result="tensor[129]", grid="2")
plant("a flag without a fence", "0414", """
if t == 0: out[b] = x[b] + 1.0         //!
let turn = atomic_add(out[2], 1.0)
if turn == 65.0: out[3] = out[k[0]]    //!
""", result="tensor[4]", grid="2", block="33")
plant("an atomic of the block only", "0414", 'atomic_add(out[k[t] % 4], x[t], scope="block")    //!!', result="tensor[4]", grid="2")
plant("a lock that no one takes", "0414", """
let old = atomic_cas(out[0], 0.0, 1.0)
if old == 0.0 or k[t] >= 0: out[1] = out[1] + 1.0    //!!
""", result="tensor[2]")
plant("rows that are as long as the author thought", "0414", """
let u = thread_idx().y
out[u * 7 + k[t]] = x[t] + u           //!!
""", block="8, 8")

# ---- barriers --------------------------------------------------------------------------------------------------------------------

plant("a barrier in a branch", "0411", """
if x[t] > 40.0:       //!
    barrier()         //!
out[t] = x[t]
""")
plant("a barrier in each branch", "0411", """
if x[t] > 40.0:
    barrier()         //!
else:
    barrier()         //!
out[t] = x[t]
""")
plant("turns that differ", "0411", """
var n = 0
while n < k[t] % 3:   //!
    barrier()         //!
    n += 1
out[t] = x[t]
""")
plant("one thread is left out", "0411", """
if k[t] != 63:        //!
    out[t] = x[t]
    barrier()         //!
""")
plant("a barrier behind two conditions", "0411", """
if x[0] == 0.0:
    if k[t] % 2 == 0:     //!
        barrier()         //!
out[t] = x[t]
""")
plant("a loop that some leave early", "0411", """
for j in 0..4:        //!
    if k[t] < j: break
    barrier()         //!
out[t] = x[t]
""")
plant("one block of two", "0411", """
if k[global_idx().x] < 100:    //!
    barrier()                  //!
out[t] = 1.0
""", grid="2")
plant("the threads beyond the end", "0411", """
let i = global_idx().x
if i < k[100]:                 //!
    barrier()                  //!
    out[t] = 1.0
""", grid="2")
plant("a sum of the block in a branch", "0411", """
if k[t] < 32:                          //!
    let s = block_sum(x[t])            //!
    out[t] = s
""")

# ---- warps -----------------------------------------------------------------------------------------------------------------------

plant("a shuffle in a branch", "0415", """
if x[t] < 20.0:                                  //!
    out[t] = warp_shuffle_down(x[t], 1)          //!
""")
plant("a shuffle in each branch", "0415", """
if x[t] < 20.0:
    out[t] = warp_shuffle_down(x[t], 1)          //!
else:
    out[t] = warp_shuffle_up(x[t], 1)            //!
""")
plant("a sum of a warp in a branch", "0415", """
if k[t] % 2 == 0:                                //!
    out[t] = warp_sum(x[t])                      //!
""")
plant("a vote in a branch", "0415", """
if k[t] > 3:                                     //!
    if warp_any(x[t] > 50.0): out[t] = 1.0       //!
""")
plant("a ballot in a loop of many lengths", "0415", """
var n = 0
while n < k[t]:                                  //!
    if warp_ballot(n > 3) != 0: out[t] = 1.0     //!
    n += 1
""", block="8")
plant("a match in a branch", "0415", """
if x[t] > 9.0:                                   //!
    out[t] = warp_match(k[t]) as f32             //!
""")
plant("a warp that is not full: down", "0415", "out[t] = warp_shuffle_down(x[t], 4)    //!", block="48")
plant("a warp that is not full: xor", "0415", "out[t] = warp_shuffle_xor(x[t], 16)    //!", block="48")
plant("a warp that is not full: a lane by number", "0415", "out[t] = warp_shuffle(x[t], k[31])    //!", block="20")
plant("a warp that is not full: a sum", "0415", "out[t] = warp_sum(x[t])    //!", block="40")
plant("a lane that went elsewhere", "0415", """
if k[t] == 3:
    barrier()                                    //!
else:
    out[t] = warp_shuffle(x[t], 3)               //!
""", block="32")

# ---- places outside -------------------------------------------------------------------------------------------------------------

plant("one beyond the end", "0801", "out[t] = x[k[t] + 65]    //!")
plant("one before the start", "0801", "out[t] = x[k[t] - 1]    //!")
plant("a write beyond the end", "0801", "out[k[t] + 1] = x[t]    //!")
plant("a grid that is too large", "0801", "out[k[b * 64 + t]] = x[t]    //!", grid="2")
plant("beyond shared memory", "0801", """
shared var s[63]
s[k[t]] = x[t]        //!
barrier()
out[t] = s[0]
""")
plant("before shared memory", "0801", """
shared var s[64]
s[t] = x[t]
barrier()
out[t] = s[k[t] - 2]  //!
""")
plant("an atomic beyond the end", "0801", "atomic_add(out[k[t] + 1], 1.0)    //!")
plant("an index of a tensor of another size", "0801", "out[t] = x[k[t] * 3]    //!")
plant("along the second axis", "0801", "out[k[t] / 8, k[t] % 9] = x[t]    //!", result="tensor[8, 8]")
