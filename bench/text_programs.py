"""Programs of text, lists and maps in ZynML beside the same in Python: `python -m bench.text_programs [--only WORD]`.

Both run in one process, turn by turn, on the same data; the time of each is the least processor time of its turns. Their results must be
equal."""

import argparse
import time
from collections.abc import Callable
from typing import Any

from bench.text_examples import EXAMPLES, TextProgram, text
from compiler.backends.host.naming import MARK
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from zynml.api import open_source

TURNS = 7


def _numbers() -> list[int]:
    return [(n * 7919 + 13) % 10_007 for n in range(50_000)]


PROGRAMS = (
    TextProgram(
        "count words",
        """
def run(text: String) {
    mut counts: HashMap<String, int> = {}
    for line in text.lines() {
        for word in line.to_lower().split() {
            counts[word] = counts.get_or(word, 0) + 1
        }
    }
    let pairs = counts.items().sorted(p => -p.1)
    pairs.take(10)
}
""",
        """
def run(text):
    counts = {}
    for line in text.splitlines():
        for word in line.lower().split():
            counts[word] = counts.get(word, 0) + 1
    pairs = sorted(counts.items(), key=lambda p: -p[1])
    return pairs[:10]
""",
        lambda: (text(),),
    ),
    TextProgram(
        "count letters",
        """
def run(text: String) {
    mut counts: dict[String, int] = {}
    for c in text {
        if c in counts { counts[c] += 1 } else { counts[c] = 1 }
    }
    counts.keys().sorted()
}
""",
        """
def run(text):
    counts = {}
    for c in text:
        if c in counts:
            counts[c] += 1
        else:
            counts[c] = 1
    return sorted(counts)
""",
        lambda: (text(),),
    ),
    TextProgram(
        "build text",
        """
def run(n: int): int {
    mut parts: List<String> = []
    for i in 0..n {
        parts.push(f"{i}:{i * i}")
    }
    let line = parts.join(",")
    mut out = ""
    for i in 0..n { out += "x" }
    for p in line.split(",") { if p.starts_with("9") { out = out + p } }
    out.len()
}
""",
        """
def run(n):
    parts = []
    for i in range(n):
        parts.append(f"{i}:{i * i}")
    line = ",".join(parts)
    out = ""
    for i in range(n):
        out += "x"
    for p in line.split(","):
        if p.startswith("9"):
            out = out + p
    return len(out)
""",
        lambda: (30_000,),
    ),
    TextProgram(
        "sort and filter",
        """
def run(xs: List<int>) {
    let even = xs.filter(x => x % 2 == 0)
    let sorted = even.sorted(x => -x)
    let squares = sorted.map(x => x * x)
    mut total = 0
    for x in squares { total += x % 1000 }
    (total, sorted.take(3), xs.sorted().len())
}
""",
        """
def run(xs):
    even = list(filter(lambda x: x % 2 == 0, xs))
    ordered = sorted(even, key=lambda x: -x)
    squares = list(map(lambda x: x * x, ordered))
    total = 0
    for x in squares:
        total += x % 1000
    return (total, ordered[:3], len(sorted(xs)))
""",
        lambda: (_numbers(),),
    ),
    TextProgram(
        "group in a map",
        """
def run(xs: List<int>) {
    mut groups: HashMap<int, List<int>> = {}
    for x in xs {
        let key = x % 97
        if not groups.contains_key(key) { groups[key] = [] }
        groups[key].push(x)
    }
    mut best = 0
    for key, members in groups {
        if members.len() > best { best = members.len() }
    }
    best
}
""",
        """
def run(xs):
    groups = {}
    for x in xs:
        key = x % 97
        if key not in groups:
            groups[key] = []
        groups[key].append(x)
    best = 0
    for key, members in groups.items():
        if len(members) > best:
            best = len(members)
    return best
""",
        lambda: (_numbers(),),
    ),
    TextProgram(
        "nested lists",
        """
def run(n: int): int {
    mut grid: List<List<int>> = []
    for i in 0..n {
        mut row: List<int> = []
        for j in 0..n { row.push((i * j) % 7) }
        grid.push(row)
    }
    mut sum = 0
    for i in 1..n - 1 {
        for j in 1..n - 1 {
            sum += grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]
            grid[i][j] = sum % 7
        }
    }
    sum
}
""",
        """
def run(n):
    grid = []
    for i in range(n):
        row = []
        for j in range(n):
            row.append((i * j) % 7)
        grid.append(row)
    sum = 0
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            sum += grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]
            grid[i][j] = sum % 7
    return sum
""",
        lambda: (200,),
    ),
    TextProgram(
        "comprehensions",
        """
def run(n: int) {
    let squares = [i * i for i in 0..n if i % 3 == 0]
    let pairs = [(a, b) for a, b in squares.enumerate() if b % 2 == 1]
    let names = {i: f"n{i}" for i in 0..n if i % 5 == 0}
    let words = [names[i] for i in names.keys()]
    squares.len() + pairs.len() + words.len()
}
""",
        """
def run(n):
    squares = [i * i for i in range(n) if i % 3 == 0]
    pairs = [(a, b) for a, b in enumerate(squares) if b % 2 == 1]
    names = {i: f"n{i}" for i in range(n) if i % 5 == 0}
    words = [names[i] for i in names.keys()]
    return len(squares) + len(pairs) + len(words)
""",
        lambda: (60_000,),
    ),
    TextProgram(
        "tokens",
        """
def is_letter(c: String): bool { (c >= "a" and c <= "z") or (c >= "A" and c <= "Z") }
def run(text: String) {
    mut words: List<String> = []
    mut word = ""
    for c in text.chars() {
        if is_letter(c) {
            word += c
        } elif word != "" {
            words.push(word)
            word = ""
        }
    }
    let seen = words.to_set()
    (words.len(), seen.len())
}
""",
        """
def is_letter(c):
    return (c >= "a" and c <= "z") or (c >= "A" and c <= "Z")
def run(text):
    words = []
    word = ""
    for c in text:
        if is_letter(c):
            word += c
        elif word != "":
            words.append(word)
            word = ""
    seen = set(words)
    return (len(words), len(seen))
""",
        lambda: (text()[:150_000],),
    ),
    TextProgram(
        "structs in lists",
        """
struct Item { name: String, price: float, count: int }
def run(n: int) {
    let items = [Item { name: f"item{i % 50}", price: 0.5 + i, count: i % 7 } for i in 0..n]
    mut totals: HashMap<String, float> = {}
    for item in items {
        if item.count > 0 { totals[item.name] = totals.get_or(item.name, 0.0) + item.price * item.count }
    }
    let dear = items.filter(i => i.price > 100.0).sorted(i => i.name)
    (totals.len(), dear.len(), totals["item7"])
}
""",
        """
from typing import NamedTuple
class Item(NamedTuple):
    name: str
    price: float
    count: int
def run(n):
    items = [Item(f"item{i % 50}", 0.5 + i, i % 7) for i in range(n)]
    totals = {}
    for item in items:
        if item.count > 0:
            totals[item.name] = totals.get(item.name, 0.0) + item.price * item.count
    dear = sorted(filter(lambda i: i.price > 100.0, items), key=lambda i: i.name)
    return (len(totals), len(dear), totals["item7"])
""",
        lambda: (20_000,),
    ),
    TextProgram(
        "queue and graph",
        """
def run(n: int): int {
    mut edges: HashMap<int, List<int>> = {}
    for i in 0..n { edges[i] = [(i * 2 + 1) % n, (i * 3 + 2) % n, (i + 1) % n] }
    mut distance: HashMap<int, int> = {}
    distance[0] = 0
    mut queue = [0]
    mut at = 0
    while at < queue.len() {
        let node = queue[at]
        at += 1
        for next in edges[node] {
            if not distance.contains_key(next) {
                distance[next] = distance[node] + 1
                queue.push(next)
            }
        }
    }
    mut far = 0
    for _, d in distance { far = max(far, d) }
    far
}
""",
        """
def run(n):
    edges = {}
    for i in range(n):
        edges[i] = [(i * 2 + 1) % n, (i * 3 + 2) % n, (i + 1) % n]
    distance = {}
    distance[0] = 0
    queue = [0]
    at = 0
    while at < len(queue):
        node = queue[at]
        at += 1
        for next in edges[node]:
            if next not in distance:
                distance[next] = distance[node] + 1
                queue.append(next)
    far = 0
    for _, d in distance.items():
        far = max(far, d)
    return far
""",
        lambda: (20_000,),
    ),
)


def functions(program: TextProgram) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Its function in ZynML, as functions of a program call it, and in Python: a call from Python looks at all that lists hold."""
    host = open_source(Source(program.name, program.zynml), CompileOptions(device="cpu"), Sources(), lambda warning: None).host
    host.start()
    names: dict[str, Any] = {}
    exec(program.python, names)
    return host.namespace.get(f"{MARK}trusting run") or host.value("run"), names["run"]


def ratio(program: TextProgram, turns: int = TURNS) -> tuple[float, float]:
    """Seconds in ZynML and in Python. Raises AssertionError where the results differ."""
    ours, theirs = functions(program)
    given = program.given()
    assert repr(ours(*given)) == repr(theirs(*given)), (program.name, repr(ours(*given))[:200], repr(theirs(*given))[:200])
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for run, taken in zip((ours, theirs), times, strict=True):
            start = time.process_time()
            run(*given)
            taken.append(time.process_time() - start)
    return min(times[0]), min(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name has this word")
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    print(f"{'program':20} {'ZynML':>9} {'Python':>9}  times as long")
    for program in (*PROGRAMS, *EXAMPLES):
        if options.only in program.name:
            ours, theirs = ratio(program, options.turns)
            print(f"{program.name:20} {ours * 1e3:6.1f} ms {theirs * 1e3:6.1f} ms  {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
