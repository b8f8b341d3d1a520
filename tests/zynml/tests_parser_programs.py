"""Programs that show every form of the language, for the tests of the parser."""

MATMUL = """let C = compute(A, B) @kernel(matmul) @device("cuda:0") {
    @workgroup(16, 16)
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
}
"""

FUNCTIONS = """def relu_sum(v: tensor[N, f32]): f32 {
    mut acc = 0.0f32
    for k in 0..N:
        if v[k] > 0.0:
            acc += v[k]
    acc
}
def f(a: T, k: int = 3): int { a + k }
def g(a): i32: a + 1
fn h(a: i32) -> i32:
    a
def m<T: Add + Mul, U>(x: T, y: List<List<T>>): T where U: Clone { x }
def n(a):
    if a.x {
        for i in 0..3:
            print(f"{i:>4} {a.get("k")} {{}}")
        return
    } else:
        b |> map(x => x * 2)
            |> fold(0, (p, q) => p + q)
    /* nested /* comment */ { ( */
    3  // the value
"""

EXPRESSIONS = """let a = A[lo:hi:2, :, -1, ...]
let b = x as f32 + y?.z
let c = c ? a : b
let d = {"a": 1, "b": [1, 2]}
let e = {label: s, score: v}
let f = [g(x) for x in xs if p(x)]
let g = Point { x: 1.0, y: t.0.1 }
let h = 2 ^ -3 + 5m - 0xff % 7u8
let i = not a and b || !c && d ?? e
let j = match v { Some(x) => x + 1, None => 0 }
let k = if a<b and c { 1 } elif d { 2 } else { 3 }
let l = List<i32>::new() & Tensor::zeros([2, 3])
let m = "a\\n\\x41" + 'b' + \"\"\"c
d\"\"\"
"""

DECLARATIONS = """struct Point { x: f32, y: f32 = 1.0 }
enum Shape<T>:
    Circle(f32)
    Named { a: i32, b: T }
    Empty
trait Area { type Item
    def area(self): f32 }
impl Area for Shape<f32> {
    def area(self): f32 { match self { case Circle(r) { r * r } case _ { 0.0 } } }
}
type P = { x: f32, y: tensor[N, 2*M+1, ?, f32] on "cuda:0" }
import a.b as T
from m import f, g
param n: int in 1..1000 = 30
config { device: "auto", seed: 7 }
test "sums" { assert(1 + 1 == 2, "plain") }
@memoize
def cached(x) { x }
"""

COMPUTE = """let hist = compute(img, a = x + 1, mut d) -> tensor[256, i32] @kernel(custom) @workgroup(128) {
    shared var bins[256, i32]
    let t = thread_idx().x
    for b in t..256 step block_dim().x: bins[b] = 0
    barrier()
    @unroll(4)
    for p in 0..n { yield bins[p] }
}
"""

ALL = (MATMUL, FUNCTIONS, EXPRESSIONS, DECLARATIONS, COMPUTE)
