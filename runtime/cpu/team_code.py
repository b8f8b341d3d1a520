"""The team's native code: what the thread does that begins a region, and what the workers do. `text` is LLVM's.

The chunks of a region that nobody has taken yet are `low..high`, two halves of one word. The caller takes the first, workers take the
last, each by one exchange of the word. A worker reads what the region is only after it has a chunk of it, and the caller stays until every
chunk is done: so a worker that comes late finds no chunk, and touches nothing. A caller never waits for a worker that hasn't begun.

Which thread does a chunk changes no bit: chunks are cut by number, and a worker computes with the caller's modes of rounding and of
subnormals.

A worker that wakes up on the caller's processor, as Linux has it where others keep the rest busy, would only take that away. It leaves
it to the caller and goes to any other one of the process."""

FIELDS = {
    "run": 0,
    "grow": 8,
    "workers": 16,
    "spins": 24,
    "untaken": 64,
    "body": 128,
    "context": 136,
    "count": 144,
    "modes": 152,
    "processor": 160,
    "done": 192,
    "awaited": 196,
    "busy": 256,
    "woken": 320,
    "asleep": 324,
    "processors": 384,
}
"""Where the fields of a team lie. What different threads write is on different lines of the cache."""

SIZE, PROCESSORS = 512, 128
"""Bytes of a team, and of its set of processors."""

RUN, WORK = "zyntax_team_run", "zyntax_team_work"
"""Symbols of the functions."""

_MACHINES = {
    "x86_64": """
@futex = internal constant i64 202
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}

define internal void @keep_modes() alwaysinline {
  call void @llvm.x86.sse.stmxcsr(ptr @modes)
  ret void
}

define internal void @set_modes() alwaysinline {
  call void @llvm.x86.sse.ldmxcsr(ptr @modes)
  ret void
}
""",
    "aarch64": """
@futex = internal constant i64 98
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}

define internal void @keep_modes() alwaysinline {
  %modes = call i64 @llvm.aarch64.get.fpcr()
  store i64 %modes, ptr @modes
  ret void
}

define internal void @set_modes() alwaysinline {
  %modes = load i64, ptr @modes
  call void @llvm.aarch64.set.fpcr(i64 %modes)
  ret void
}
""",
}
"""By architecture: the number of the system call `futex`, and how a thread pauses, keeps the modes of floats and sets them."""


def text(architecture: str) -> str | None:
    """The module for Linux on such machines; None for an architecture that there is none for."""
    if architecture not in _MACHINES:
        return None
    fields = "\n".join(f"@{field} = external global i64" for field in FIELDS if field != "run")
    return f"{fields}\n{_MACHINES[architecture]}{_SYSTEM}{_WORKER}{_CALLER}"


_SYSTEM = f"""
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; until the word is another one, or for no reason
define internal void @sleep_while(ptr %word, i32 %value) {{
  %number = load i64, ptr @futex
  %ignored = call i64 (i64, ...) @syscall(i64 %number, ptr %word, i64 128, i32 %value, i64 0, i64 0, i64 0)
  ret void
}}

define internal void @wake(ptr %word, i64 %most) {{
  %number = load i64, ptr @futex
  %ignored = call i64 (i64, ...) @syscall(i64 %number, ptr %word, i64 129, i64 %most, i64 0, i64 0, i64 0)
  ret void
}}

; whether this thread is, from now on, on another processor than that one
define internal i1 @leave(i32 %processor) {{
  %others = alloca [{PROCESSORS} x i8], align 16
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr @processors, i64 {PROCESSORS}, i1 false)
  %byte = lshr i32 %processor, 3
  %bit = and i32 %processor, 7
  %at = getelementptr i8, ptr %others, i32 %byte
  %bits = load i8, ptr %at
  %place = trunc i32 %bit to i8
  %own = shl i8 1, %place
  %without = xor i8 %own, -1
  %rest = and i8 %bits, %without
  store i8 %rest, ptr %at
  %failed = call i32 @sched_setaffinity(i32 0, i64 {PROCESSORS}, ptr %others)
  %left = icmp eq i32 %failed, 0
  ret i1 %left
}}
"""

_WORKER = f"""
define ptr @{WORK}(ptr %unused) {{
begin:
  %most = load i64, ptr @spins
  br label %look

look:
  %spins = phi i64 [ %most, %begin ], [ %most, %finished ], [ %most, %tell ], [ %most, %up ], [ %fewer, %wait ], [ %fewer, %yield ],
    [ %spins, %elsewhere ], [ %spins, %take ]
  %untaken = load atomic i64, ptr @untaken acquire, align 8
  %low = lshr i64 %untaken, 32
  %high = and i64 %untaken, 4294967295
  %some = icmp ult i64 %low, %high
  br i1 %some, label %found, label %idle

found:
  %here = call i32 @sched_getcpu()
  %callers = load atomic i32, ptr @processor monotonic, align 4
  %same = icmp eq i32 %here, %callers
  %known = icmp ult i32 %here, {8 * PROCESSORS}
  %shared = and i1 %same, %known
  br i1 %shared, label %elsewhere, label %take

elsewhere:
  %left = call i1 @leave(i32 %here)
  br i1 %left, label %look, label %take

take:
  %number = sub i64 %high, 1
  %less = sub i64 %untaken, 1
  %exchange = cmpxchg ptr @untaken, i64 %untaken, i64 %less acq_rel acquire
  %mine = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %mine, label %work, label %look

work:
  %body = load ptr, ptr @body
  %context = load ptr, ptr @context
  %count = load i64, ptr @count
  call void @set_modes()
  call void %body(ptr %context, i64 %number, i64 %count)
  %before = atomicrmw add ptr @done, i32 1 seq_cst
  %awaited = load atomic i32, ptr @awaited seq_cst, align 4
  %waits = icmp ne i32 %awaited, 0
  br i1 %waits, label %tell, label %finished

finished:
  br label %look

tell:
  call void @wake(ptr @done, i64 1)
  br label %look

; others may wait for this processor: now and then they are let in
idle:
  call void @pause()
  %fewer = sub i64 %spins, 1
  %over = icmp slt i64 %fewer, 0
  br i1 %over, label %sleep, label %spin

spin:
  %turn = and i64 %fewer, 31
  %lets = icmp eq i64 %turn, 0
  br i1 %lets, label %yield, label %wait

wait:
  br label %look

yield:
  %ignored = call i32 @sched_yield()
  br label %look

; who begins a region sees that one sleeps, or this one sees the region
sleep:
  %woken = load atomic i32, ptr @woken seq_cst, align 4
  %slept = atomicrmw add ptr @asleep, i32 1 seq_cst
  %again = load atomic i64, ptr @untaken seq_cst, align 8
  %first = lshr i64 %again, 32
  %last = and i64 %again, 4294967295
  %any = icmp ult i64 %first, %last
  br i1 %any, label %up, label %down

down:
  call void @sleep_while(ptr @woken, i32 %woken)
  br label %up

up:
  %rose = atomicrmw sub ptr @asleep, i32 1 seq_cst
  br label %look
}}
"""

_CALLER = f"""
; void run(void (*body)(void *context, i64 number, i64 count), void *context, i64 count)
define void @{RUN}(ptr %body, ptr %context, i64 %count) {{
begin:
  %others = sub i64 %count, 1
  %workers = load atomic i64, ptr @workers monotonic, align 8
  %lacks = icmp slt i64 %workers, %others
  br i1 %lacks, label %grow, label %enter

grow:
  %more = load ptr, ptr @grow
  call void %more(i64 %others)
  br label %enter

enter:
  %exchange = cmpxchg ptr @busy, i32 0, i32 1 acq_rel acquire
  %free = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %free, label %open, label %alone

; the team works for another thread
alone:
  %number = phi i64 [ 0, %enter ], [ %next, %alone ]
  call void %body(ptr %context, i64 %number, i64 %count)
  %next = add i64 %number, 1
  %all = icmp eq i64 %next, %count
  br i1 %all, label %end, label %alone

open:
  store ptr %body, ptr @body
  store ptr %context, ptr @context
  store i64 %count, ptr @count
  call void @keep_modes()
  %here = call i32 @sched_getcpu()
  store atomic i32 %here, ptr @processor monotonic, align 4
  store atomic i32 0, ptr @done monotonic, align 4
  store atomic i32 0, ptr @awaited monotonic, align 4
  %ignored = atomicrmw xchg ptr @untaken, i64 %count seq_cst
  %asleep = load atomic i32, ptr @asleep seq_cst, align 4
  %some = icmp ne i32 %asleep, 0
  br i1 %some, label %rouse, label %look

rouse:
  %woken = atomicrmw add ptr @woken, i32 1 seq_cst
  call void @wake(ptr @woken, i64 %others)
  br label %look

look:
  %did = phi i32 [ 0, %open ], [ 0, %rouse ], [ %did, %take ], [ %more.done, %work ]
  %untaken = load atomic i64, ptr @untaken acquire, align 8
  %low = lshr i64 %untaken, 32
  %high = and i64 %untaken, 4294967295
  %left = icmp ult i64 %low, %high
  br i1 %left, label %take, label %join

take:
  %less = add i64 %untaken, 4294967296
  %claim = cmpxchg ptr @untaken, i64 %untaken, i64 %less acq_rel acquire
  %mine = extractvalue {{ i64, i1 }} %claim, 1
  br i1 %mine, label %work, label %look

work:
  call void %body(ptr %context, i64 %low, i64 %count)
  %more.done = add i32 %did, 1
  br label %look

join:
  %chunks = trunc i64 %count to i32
  %theirs = sub i32 %chunks, %did
  %most = load i64, ptr @spins
  br label %wait

wait:
  %spins = phi i64 [ %most, %join ], [ %fewer, %spin ]
  %done = load atomic i32, ptr @done acquire, align 4
  %finished = icmp eq i32 %done, %theirs
  br i1 %finished, label %close, label %spin

spin:
  call void @pause()
  %fewer = sub i64 %spins, 1
  %over = icmp slt i64 %fewer, 0
  br i1 %over, label %sleep, label %wait

; who does the last chunk sees that it is awaited, or this one sees that it is done
sleep:
  store atomic i32 1, ptr @awaited seq_cst, align 4
  %done.now = load atomic i32, ptr @done seq_cst, align 4
  %finished.now = icmp eq i32 %done.now, %theirs
  br i1 %finished.now, label %close, label %down

down:
  call void @sleep_while(ptr @done, i32 %done.now)
  br label %sleep

close:
  store atomic i32 0, ptr @busy release, align 4
  br label %end

end:
  ret void
}}
"""
