"""Further programs for `bench.text_programs`, each the same in ZynML and in Python: a tokenizer, a cache, a matrix of lists, frequencies of
words, brackets, the edit distance, a tree of values, groups without what comes twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class TextProgram:
    """The same program twice, and what it is given. Each defines `run`."""

    name: str
    zynml: str
    python: str
    given: Callable[[], tuple[Any, ...]]


def text() -> str:
    folder = Path(__file__).parents[1] / "programs" / "data"
    return (folder / "moby_dick.txt").read_text(encoding="utf-8")[:400_000]


def _formulas() -> str:
    return " + ".join(f"(alpha{n} * {n * 37 % 1000} - beta_{n % 7}) / {n + 1}" for n in range(3_000))


def _brackets() -> str:
    return "".join(f"(a[{n}]{{b(c)[d{{e}}]}})" for n in range(4_000))


EXAMPLES = (
    TextProgram(
        "tokenizer",
        """
def is_digit(c: String): bool { c >= "0" and c <= "9" }
def is_start(c: String): bool { (c >= "a" and c <= "z") or c == "_" }
def run(text: String) {
    let signs = "+-*/()"
    let characters = text.chars()
    mut kinds: List<String> = []
    mut spellings: List<String> = []
    mut at = 0
    while at < characters.len() {
        let c = characters[at]
        if c == " " {
            at += 1
        } elif is_digit(c) {
            mut value = ""
            while at < characters.len() and is_digit(characters[at]) {
                value += characters[at]
                at += 1
            }
            kinds.push("number")
            spellings.push(value)
        } elif is_start(c) {
            mut name = ""
            while at < characters.len() and (is_start(characters[at]) or is_digit(characters[at])) {
                name += characters[at]
                at += 1
            }
            kinds.push("name")
            spellings.push(name)
        } else {
            kinds.push(if signs.contains(c) { "sign" } else { "unknown" })
            spellings.push(c)
            at += 1
        }
    }
    mut counts: HashMap<String, int> = {}
    for i in 0..kinds.len() { counts[kinds[i]] = counts.get_or(kinds[i], 0) + spellings[i].len() }
    (kinds.len(), counts["number"], counts["name"], counts["sign"])
}
""",
        """
def is_digit(c):
    return c >= "0" and c <= "9"
def is_start(c):
    return (c >= "a" and c <= "z") or c == "_"
def run(text):
    signs = "+-*/()"
    characters = list(text)
    kinds = []
    spellings = []
    at = 0
    while at < len(characters):
        c = characters[at]
        if c == " ":
            at += 1
        elif is_digit(c):
            value = ""
            while at < len(characters) and is_digit(characters[at]):
                value += characters[at]
                at += 1
            kinds.append("number")
            spellings.append(value)
        elif is_start(c):
            name = ""
            while at < len(characters) and (is_start(characters[at]) or is_digit(characters[at])):
                name += characters[at]
                at += 1
            kinds.append("name")
            spellings.append(name)
        else:
            kinds.append("sign" if c in signs else "unknown")
            spellings.append(c)
            at += 1
    counts = {}
    for i in range(len(kinds)):
        counts[kinds[i]] = counts.get(kinds[i], 0) + len(spellings[i])
    return (len(kinds), counts["number"], counts["name"], counts["sign"])
""",
        lambda: (_formulas(),),
    ),
    TextProgram(
        "least recently used",
        """
def run(requests: int, room: int): (int, int) {
    mut values: HashMap<int, int> = {}
    mut used: HashMap<int, int> = {}
    mut hits = 0
    mut clock = 0
    mut key = 7
    for _ in 0..requests {
        key = (key * 31 + 17) % 257
        let wanted = if key % 3 == 0 { key } else { key % 20 }
        clock += 1
        if values.contains_key(wanted) {
            hits += 1
        } else {
            if values.len() >= room {
                mut oldest = -1
                mut time = clock
                for other, last in used {
                    if last < time {
                        oldest = other
                        time = last
                    }
                }
                values.remove(oldest)
                used.remove(oldest)
            }
            values[wanted] = wanted * wanted
        }
        used[wanted] = clock
    }
    (hits, values.len())
}
""",
        """
def run(requests, room):
    values = {}
    used = {}
    hits = 0
    clock = 0
    key = 7
    for _ in range(requests):
        key = (key * 31 + 17) % 257
        wanted = key if key % 3 == 0 else key % 20
        clock += 1
        if wanted in values:
            hits += 1
        else:
            if len(values) >= room:
                oldest = -1
                time = clock
                for other, last in used.items():
                    if last < time:
                        oldest = other
                        time = last
                values.pop(oldest)
                used.pop(oldest)
            values[wanted] = wanted * wanted
        used[wanted] = clock
    return (hits, len(values))
""",
        lambda: (20_000, 32),
    ),
    TextProgram(
        "matrix of lists",
        """
def run(n: int): float {
    let a = [[1.0 / (i + j + 1) for j in 0..n] for i in 0..n]
    let b = [[(i * j % 5) * 0.5 for j in 0..n] for i in 0..n]
    mut c: List<List<float>> = []
    for i in 0..n {
        mut row: List<float> = []
        for j in 0..n {
            mut sum = 0.0
            for k in 0..n { sum += a[i][k] * b[k][j] }
            row.push(sum)
        }
        c.push(row)
    }
    mut trace = 0.0
    for i in 0..n { trace += c[i][i] }
    trace
}
""",
        """
def run(n):
    a = [[1.0 / (i + j + 1) for j in range(n)] for i in range(n)]
    b = [[(i * j % 5) * 0.5 for j in range(n)] for i in range(n)]
    c = []
    for i in range(n):
        row = []
        for j in range(n):
            sum = 0.0
            for k in range(n):
                sum += a[i][k] * b[k][j]
            row.append(sum)
        c.append(row)
    trace = 0.0
    for i in range(n):
        trace += c[i][i]
    return trace
""",
        lambda: (60,),
    ),
    TextProgram(
        "word frequencies",
        """
def run(text: String) {
    let stop = ["the", "and", "of", "a", "to", "in"].to_set()
    mut counts: HashMap<String, int> = {}
    mut longest = ""
    for word in text.to_lower().split() {
        let plain = word.replace(",", "").replace(".", "").replace(";", "")
        if plain.len() == 0 or plain in stop { continue }
        if plain.len() > longest.len() { longest = plain }
        if plain in counts { counts[plain] += 1 } else { counts[plain] = 1 }
    }
    mut lengths: HashMap<int, int> = {}
    for word, count in counts { lengths[word.len()] = lengths.get_or(word.len(), 0) + count }
    let often = counts.items().filter(p => p.1 > 20).sorted(p => p.0)
    (longest, often.len(), lengths.keys().sorted())
}
""",
        """
def run(text):
    stop = set(["the", "and", "of", "a", "to", "in"])
    counts = {}
    longest = ""
    for word in text.lower().split():
        plain = word.replace(",", "").replace(".", "").replace(";", "")
        if len(plain) == 0 or plain in stop:
            continue
        if len(plain) > len(longest):
            longest = plain
        if plain in counts:
            counts[plain] += 1
        else:
            counts[plain] = 1
    lengths = {}
    for word, count in counts.items():
        lengths[len(word)] = lengths.get(len(word), 0) + count
    often = sorted(filter(lambda p: p[1] > 20, counts.items()), key=lambda p: p[0])
    return (longest, len(often), sorted(lengths.keys()))
""",
        lambda: (text(),),
    ),
    TextProgram(
        "brackets",
        """
def run(text: String): (int, int) {
    let closers = {"(": ")", "[": "]", "{": "}"}
    mut open: List<String> = []
    mut deepest = 0
    mut faults = 0
    for c in text {
        if c in closers {
            open.push(closers[c])
            if open.len() > deepest { deepest = open.len() }
        } elif c == ")" or c == "]" or c == "}" {
            if open.len() == 0 or open[open.len() - 1] != c { faults += 1 } else { open.pop() }
        }
    }
    (deepest, faults + open.len())
}
""",
        """
def run(text):
    closers = {"(": ")", "[": "]", "{": "}"}
    open = []
    deepest = 0
    faults = 0
    for c in text:
        if c in closers:
            open.append(closers[c])
            if len(open) > deepest:
                deepest = len(open)
        elif c == ")" or c == "]" or c == "}":
            if len(open) == 0 or open[len(open) - 1] != c:
                faults += 1
            else:
                open.pop()
    return (deepest, faults + len(open))
""",
        lambda: (_brackets(),),
    ),
    TextProgram(
        "edit distance",
        """
def run(left: String, right: String): int {
    let a = left.chars()
    let b = right.chars()
    mut before = [j for j in 0..b.len() + 1]
    for i in 0..a.len() {
        mut row = [i + 1]
        for j in 0..b.len() {
            let cost = if a[i] == b[j] { 0 } else { 1 }
            row.push(min(min(row[j] + 1, before[j + 1] + 1), before[j] + cost))
        }
        before = row
    }
    before[b.len()]
}
""",
        """
def run(left, right):
    a = list(left)
    b = list(right)
    before = [j for j in range(len(b) + 1)]
    for i in range(len(a)):
        row = [i + 1]
        for j in range(len(b)):
            cost = 0 if a[i] == b[j] else 1
            row.append(min(min(row[j] + 1, before[j + 1] + 1), before[j] + cost))
        before = row
    return before[len(b)]
""",
        lambda: (text()[:250], text()[3_000:3_250]),
    ),
    TextProgram(
        "tree of values",
        """
struct Value { kind: String, number: float, text: String, children: List<int> }
def make(mut values: List<Value>, depth: int, seed: int): int {
    mut children: List<int> = []
    let at = values.len()
    if depth == 0 {
        if seed % 2 == 0 {
            values.push(Value { kind: "number", number: seed * 0.5, text: "", children: children })
        } else {
            values.push(Value { kind: "text", number: 0.0, text: f"t{seed}", children: children })
        }
        return at
    }
    values.push(Value { kind: if seed % 3 == 0 { "items" } else { "fields" }, number: 0.0, text: "", children: children })
    for i in 0..4 { children.push(make(values, depth - 1, seed * 2 + i)) }
    at
}
def total(values: List<Value>, at: int): float {
    let value = values[at]
    if value.kind == "number" { return value.number }
    if value.kind == "text" { return value.text.len() as float }
    mut sum = 0.0
    for child in value.children { sum += total(values, child) }
    if value.kind == "fields" { sum += value.children.len() }
    sum
}
def run(depth: int): float {
    mut values: List<Value> = []
    let root = make(values, depth, 1)
    total(values, root)
}
""",
        """
from typing import NamedTuple
class Value(NamedTuple):
    kind: str
    number: float
    text: str
    children: list
def make(values, depth, seed):
    children = []
    at = len(values)
    if depth == 0:
        if seed % 2 == 0:
            values.append(Value("number", seed * 0.5, "", children))
        else:
            values.append(Value("text", 0.0, f"t{seed}", children))
        return at
    values.append(Value("items" if seed % 3 == 0 else "fields", 0.0, "", children))
    for i in range(4):
        children.append(make(values, depth - 1, seed * 2 + i))
    return at
def total(values, at):
    value = values[at]
    if value.kind == "number":
        return value.number
    if value.kind == "text":
        return float(len(value.text))
    sum = 0.0
    for child in value.children:
        sum += total(values, child)
    if value.kind == "fields":
        sum += len(value.children)
    return sum
def run(depth):
    values = []
    root = make(values, depth, 1)
    return total(values, root)
""",
        lambda: (5,),
    ),
    TextProgram(
        "unique and grouped",
        """
def run(words: List<String>) {
    mut seen: HashSet<String> = {}
    mut unique: List<String> = []
    for word in words {
        if word not in seen {
            seen.add(word)
            unique.push(word)
        }
    }
    mut groups: HashMap<String, List<String>> = {}
    for word in unique {
        let key = word.get(0)
        if key not in groups { groups[key] = [] }
        groups[key].push(word)
    }
    mut sizes: List<(String, int)> = []
    for key in groups.keys().sorted() { sizes.push((key, groups[key].len())) }
    let total = sizes.map(p => p.1).sum()
    (unique.len(), total, sizes.take(5))
}
""",
        """
def run(words):
    seen = set()
    unique = []
    for word in words:
        if word not in seen:
            seen.add(word)
            unique.append(word)
    groups = {}
    for word in unique:
        key = word[0]
        if key not in groups:
            groups[key] = []
        groups[key].append(word)
    sizes = []
    for key in sorted(groups.keys()):
        sizes.append((key, len(groups[key])))
    total = sum(map(lambda p: p[1], sizes))
    return (len(unique), total, sizes[:5])
""",
        lambda: (text().lower().split(),),
    ),
)
