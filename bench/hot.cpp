// What `hot.qdsl` says, written by hand for that strategy alone, and the loops of `hot.py` that time compiled code from compiled code.
//
// The same book of sorted levels, rules, exact money, orders in a slab, requests and reports that travel a fixed time, and records of
// orders, fills and profit and loss. Terms of the instrument and of the risk block are constants. Nothing is checked for overflow; there
// are no options of orders but those used here, no handlers but one, and no states of trading but `killed`.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <x86intrin.h>

using i64 = int64_t;
using u64 = uint64_t;
using i128 = __int128;

// ---- terms ----

#ifndef MOST
#define MOST 2000
#endif
constexpr double THRESHOLD = 0.05;
constexpr i64 CLIP = 10, POINT = 1'250'000'000;
constexpr i64 MAX_ORDER_QTY = 1000, MAX_NOTIONAL = 250'000'000ll * 100'000'000 / POINT, MAX_POSITION = 3000, COLLAR_BPS = 50;
constexpr i64 RATE = 64, WINDOW = 40'000;
constexpr int IDS = 1024, SLOTS = 2048, OPEN = 1024, LEVELS = 64, QUEUE = 8192, RECORDS = 8192;
enum { BUY, SELL };
enum { PENDING = 1, LIVE, PART_FILLED, FILLED, CANCELLED };

// ---- memory ----

struct Asked { i64 side, qty, limit, step, back, held; };
struct Traded { i64 side, price, qty, maker, mark2; };
struct Tick { i64 step, bid, ask, bid_at, bid_qty, ask_at, ask_qty; };

struct Side { i64 count; i64 price[LEVELS], qty[LEVELS], taken[LEVELS]; };                     // the best first
struct Order { u64 id; i64 ts, done, qty, limit, filled, left, place; uint8_t state, side; };
struct Request { i64 due, slot; u64 id; };
struct Report { i64 due, slot; u64 id; i64 price, qty; uint8_t kind; };
enum { ACK, FILL, END };
template <class T> struct Queue {
    u64 first, next;
    T items[QUEUE];
    bool empty() const { return first == next; }
    T &front() { return items[first & (QUEUE - 1)]; }
    T &push() { return items[next++ & (QUEUE - 1)]; }
};
struct OutOrder { u64 id; i64 ts, done, qty, limit, filled; uint8_t side, state; };
struct OutFill { i64 ts; u64 order; i64 price, qty, fee, realized, position; uint8_t side, maker; };
struct OutReject { i64 ts; u64 order; i64 qty, limit; uint16_t mask; uint8_t side; };
struct OutPnl { i64 ts, position, mark2, realized, unrealized, fees, net; };
template <class T> struct Out { i64 count; T records[RECORDS]; T &add() { return records[count++]; } };

struct Client { u64 id, top; bool other; };
struct Desk {
    // what is compared
    i64 qty, cost, realized, unrealized, fees, net, max_drawdown, volume, open_buys, open_sells, average, cash, peak;
    i64 submitted, open_count, want;
    double fast, slow;
    // and the rest
    i64 now, killed, mark2, client;
    bool has_mark, has_fast, has_slow;
    i64 out_delay, back_delay;
    Side sides[2];
    i64 reject_counts[12];
    struct { i64 count, next; i64 items[RATE]; } times;
    struct { i64 count, next; Client items[IDS]; } ids;
    u64 others[SLOTS];                                                                          // 0 is no id
    i64 free_count, fresh, free[OPEN], open[OPEN];
    Order orders[OPEN];
    Queue<Request> asked;
    Queue<Report> told;
    Out<OutOrder> out_orders;
    Out<OutFill> out_fills;
    Out<OutReject> out_rejects;
    Out<OutPnl> out_pnl;
};

// ---- ids that were seen ----

// Mostly each is above all before it. The ring keeps the highest of all up to each, sorted; the few others are in a set beside it.
static inline int home(u64 id) { return int(id * 0x9E3779B97F4A7C15ull >> 53); }
static inline const Client &of_age(const Desk *d, i64 age) { return d->ids.items[(d->ids.next - 1 - age) & (IDS - 1)]; }
static inline bool rises(const Desk *d, u64 id) { return d->ids.count == 0 || id > of_age(d, 0).top; }
__attribute__((noinline)) static bool is_known(const Desk *d, u64 id) {
    for (int at = home(id); d->others[at] != 0; at = (at + 1) & (SLOTS - 1)) {
        if (d->others[at] == id) return true;
    }
    i64 low = 0, high = d->ids.count - 1;
    while (low < high) {
        i64 middle = (low + high + 1) >> 1;
        if (of_age(d, middle).top >= id) low = middle; else high = middle - 1;
    }
    return of_age(d, low).id == id;
}
__attribute__((noinline)) static void forget(Desk *d, u64 id) {
    int hole = home(id);
    while (d->others[hole] != id) hole = (hole + 1) & (SLOTS - 1);
    for (int at = (hole + 1) & (SLOTS - 1); d->others[at] != 0; at = (at + 1) & (SLOTS - 1)) {
        int of = home(d->others[at]);
        if (((at - of) & (SLOTS - 1)) >= ((at - hole) & (SLOTS - 1))) { d->others[hole] = d->others[at]; hole = at; }
    }
    d->others[hole] = 0;
}
__attribute__((noinline)) static void insert(Desk *d, u64 id) {
    int at = home(id);
    while (d->others[at] != 0) at = (at + 1) & (SLOTS - 1);
    d->others[at] = id;
}
static inline void remember(Desk *d, u64 id) {
    bool above = rises(d, id);
    u64 top = above ? id : of_age(d, 0).top;
    Client &place = d->ids.items[d->ids.next];
    d->ids.next = (d->ids.next + 1) & (IDS - 1);
    if (d->ids.count < IDS) d->ids.count++; else if (place.other) forget(d, place.id);
    place = Client{id, top, !above};
    if (!above) insert(d, id);
}

// ---- risk ----

static inline i64 magnitude(i64 x) { return x < 0 ? -x : x; }

static inline i64 judge(const Desk *d, i64 side, i64 qty, i64 limit, u64 client) {
    i64 mask = d->killed ? 1 : 0;
    mask |= qty < 1 || qty > MAX_ORDER_QTY ? 2 : 0;
    mask |= (i128)limit * qty > MAX_NOTIONAL ? 4 : 0;
    i64 mid2 = d->sides[BUY].price[0] + d->sides[SELL].price[0];
    mask |= d->sides[BUY].count == 0 || d->sides[SELL].count == 0 ? 256 : magnitude(2 * limit - mid2) * 10000 > COLLAR_BPS * mid2 ? 8 : 0;
    i64 held = side == BUY ? d->qty : -d->qty, same = side == BUY ? d->open_buys : d->open_sells;
    mask |= held + same + qty > MAX_POSITION ? 16 : 0;
    mask |= d->times.count == RATE && d->times.items[d->times.next] > d->now - WINDOW ? 32 : 0;
    mask |= !rises(d, client) && is_known(d, client) ? 64 : 0;
    mask |= d->open_count >= OPEN ? 512 : 0;
    return mask;
}
static inline void accept(Desk *d, u64 client) {
    d->times.items[d->times.next] = d->now;
    d->times.next = (d->times.next + 1) & (RATE - 1);
    d->times.count += d->times.count < RATE;
    remember(d, client);
}

// ---- accounting ----

static inline i64 half_even(i64 whole, i64 rest, i64 by, bool negative) {
    i64 twice = 2 * magnitude(rest);
    return twice > by || (twice == by && (whole & 1)) ? whole + (negative ? -1 : 1) : whole;
}
static inline i64 part_of(i64 cost, i64 closed, i64 held) {
    i128 product = (i128)cost * closed;
    if (product == (i64)product) return half_even((i64)product / held, (i64)product % held, held, product < 0);
    return half_even((i64)(product / held), (i64)(product % held), held, product < 0);
}
static inline void revalue(Desk *d) {
    if (d->has_mark) {
        i64 worth = d->qty * POINT;
        i64 whole = worth * (d->mark2 >> 1) + (d->mark2 & 1 ? worth >> 1 : 0);
        if (worth & d->mark2 & 1) whole += whole & 1;
        d->unrealized = whole - d->cost;
    }
    d->net = d->realized + d->unrealized - d->fees;
    if (d->net > d->peak) d->peak = d->net;
    if (d->peak - d->net > d->max_drawdown) d->max_drawdown = d->peak - d->net;
}
static inline void mark(Desk *d, i64 mark2) {
    if (d->has_mark && d->mark2 == mark2) return;
    d->has_mark = true;
    d->mark2 = mark2;
    if (d->qty != 0) revalue(d);
}
static inline i64 account(Desk *d, i64 side, i64 price, i64 qty, bool maker) {
    i64 sign = side == BUY ? 1 : -1, before = d->qty, size = magnitude(before);
    i64 closing = before != 0 && (before < 0) == (side == BUY) ? (qty < size ? qty : size) : 0;
    i64 value = price * qty * POINT;
    if (closing > 0) {
        i64 part = part_of(d->cost, closing, size);
        d->realized += -sign * price * closing * POINT - part;
        d->cost -= part;
    }
    if (qty > closing) d->cost += sign * price * (qty - closing) * POINT;
    d->qty = before + sign * qty;
    d->cash -= sign * value;
    d->volume += qty;
    i64 numerator = maker ? -1 : 1, denominator = maker ? 100'000 : 50'000, product = value * numerator;
    i64 fee = product / denominator + (product % denominator > 0);
    d->fees += fee;
    d->average = 0;                                                                             // none
    if (d->qty != 0) {
        i64 by = d->qty * POINT;
        d->average = half_even(d->cost / by, d->cost % by, magnitude(by), (d->cost < 0) != (by < 0));
    }
    return fee;
}

// ---- signal ----

static inline void show(Desk *d, const Tick *t) {
    Side &bids = d->sides[BUY], &asks = d->sides[SELL];
    d->now += t->step;
    bids.price[0] = t->bid;
    asks.price[0] = t->ask;
    bids.taken[0] = asks.taken[0] = 0;
    bids.qty[t->bid_at] = t->bid_qty;
    asks.qty[t->ask_at] = t->ask_qty;
}
static inline double ema(double &held, bool &has, double x, double n) {
    held = has ? held + 2.0 / (n + 1) * (x - held) : x;
    has = true;
    return held;
}
static inline i64 depth(const Side &side) {
    i64 total = 0, count = side.count < 10 ? side.count : 10;
    for (i64 i = 0; i < count; i++) total += side.qty[i];
    return total;
}
// 0, or the side wanted plus 1
static inline i64 signal(Desk *d) {
    const Side &bids = d->sides[BUY], &asks = d->sides[SELL];
    if (bids.count == 0 || asks.count == 0) return d->want;
    double at = double(((bids.price[0] + asks.price[0]) >> 1) * 25) / 100;
    double trend = ema(d->fast, d->has_fast, at, 12) - ema(d->slow, d->has_slow, at, 26);
    double more = double(depth(bids)), less = double(depth(asks)), all = more + less;
    double lean = all == 0 ? 0 : (more - less) / all;
    double bid_qty = double(bids.qty[0]), ask_qty = double(asks.qty[0]);
    double fair = (double(bids.price[0]) * ask_qty + double(asks.price[0]) * bid_qty) / (bid_qty + ask_qty) * 25 / 100;
    i64 want = 0;
    if (trend > 0 && lean > THRESHOLD && fair > at) want = 1 + BUY;
    else if (trend < 0 && lean < -THRESHOLD && fair < at) want = 1 + SELL;
    return d->want = want;
}

// ---- orders ----

static inline void weigh(Desk *d, i64 side, i64 by) { (side == BUY ? d->open_buys : d->open_sells) += by; }

static inline i64 order(Desk *d, i64 side, i64 qty, i64 limit, u64 client) {
    u64 id = ++d->submitted;
    if (i64 mask = judge(d, side, qty, limit, client)) {
        for (int rule = 0; rule < 12; rule++) d->reject_counts[rule] += mask >> rule & 1;
        d->out_rejects.add() = OutReject{d->now, id, qty, limit, uint16_t(mask), uint8_t(side + 1)};
        return mask;
    }
    accept(d, client);
    i64 slot = d->free_count > 0 ? d->free[--d->free_count] : d->fresh++;
    d->orders[slot] = Order{id, d->now, 0, qty, limit, 0, 0, d->open_count, PENDING, uint8_t(side)};
    d->open[d->open_count++] = slot;
    weigh(d, side, qty);
    d->asked.push() = Request{d->now + d->out_delay, slot, id};
    return 0;
}
static inline void on_book(Desk *d) {
    i64 want = signal(d);
    if (want == 0) return;
    i64 side = want - 1;
    if ((side == BUY ? d->qty : -d->qty) >= MOST) return;
    d->client++;
    order(d, side, CLIP, d->sides[side ^ 1].price[0], d->client);
}
static inline void tell(Desk *d, const Order &o, i64 slot, uint8_t kind, i64 price, i64 qty) {
    d->told.push() = Report{d->now + d->back_delay, slot, o.id, price, qty, kind};
}
static inline void arrive(Desk *d) {
    Request r = d->asked.front();
    d->asked.first++;
    Order &o = d->orders[r.slot];
    if (o.id != r.id) return;
    o.left = o.qty;
    tell(d, o, r.slot, ACK, 0, 0);
    Side &far = d->sides[o.side ^ 1];
    for (i64 i = 0; i < far.count && o.left > 0; i++) {
        if (o.side == BUY ? far.price[i] > o.limit : far.price[i] < o.limit) break;
        i64 there = far.qty[i] - far.taken[i], taken = o.left < there ? o.left : there;
        if (taken <= 0) continue;
        far.taken[i] += taken;
        o.left -= taken;
        tell(d, o, r.slot, FILL, far.price[i], taken);
    }
    if (o.left > 0) tell(d, o, r.slot, END, 0, 0);
}
static inline void leave(Desk *d, i64 slot, uint8_t state) {
    Order &o = d->orders[slot];
    d->out_orders.add() = OutOrder{o.id, o.ts, d->now, o.qty, o.limit, o.filled, uint8_t(o.side + 1), state};
    d->open_count--;
    for (i64 i = o.place; i < d->open_count; i++) d->orders[d->open[i] = d->open[i + 1]].place = i;
    o.id = 0;
    d->free[d->free_count++] = slot;
}
static inline void deliver(Desk *d) {
    Report r = d->told.front();
    d->told.first++;
    Order &o = d->orders[r.slot];
    if (o.id != r.id) return;
    if (r.kind == ACK) { o.state = LIVE; return; }
    i64 side = o.side;
    if (r.kind == END) {
        weigh(d, side, o.filled - o.qty);
        leave(d, r.slot, CANCELLED);
        return;
    }
    weigh(d, side, -r.qty);
    o.filled += r.qty;
    if (o.filled == o.qty) leave(d, r.slot, FILLED); else o.state = PART_FILLED;
    i64 fee = account(d, side, r.price, r.qty, false);
    d->out_fills.add() = OutFill{d->now, r.id, r.price, r.qty, fee, d->realized, d->qty, uint8_t(side + 1), 0};
    mark(d, d->sides[BUY].price[0] + d->sides[SELL].price[0]);
    revalue(d);
    d->out_pnl.add() = OutPnl{d->now, d->qty, d->mark2, d->realized, d->unrealized, d->fees, d->net};
}
static inline void settle(Desk *d) {
    for (;;) {
        i64 asked = d->asked.empty() ? INT64_MAX : d->asked.front().due, told = d->told.empty() ? INT64_MAX : d->told.front().due;
        if (asked > d->now && told > d->now) return;
        if (asked <= told) arrive(d); else deliver(d);
    }
}

// ---- what is timed ----

#define OUT extern "C" __attribute__((noinline))
OUT i64 c_risk(Desk *d, const Asked *a) {
    d->now += a->step;
    d->qty = a->held;
    u64 client = ++d->submitted - a->back;
    i64 mask = judge(d, a->side, a->qty, a->limit, client);
    if (mask == 0) accept(d, client);
    return mask;
}
OUT i64 c_fill(Desk *d, const Traded *t) {
    i64 fee = account(d, t->side, t->price, t->qty, t->maker != 0);
    mark(d, t->mark2);
    revalue(d);
    return fee;
}
OUT i64 c_signal(Desk *d, const Tick *t) {
    show(d, t);
    on_book(d);
    return d->submitted;
}
OUT i64 c_send(Desk *d, const Asked *a) {
    d->now += a->step;
    return order(d, a->side, a->qty, a->limit, d->submitted + 1);
}
OUT i64 c_settle(Desk *d, const Tick *) {
    settle(d);
    return d->qty;
}
OUT i64 c_tick(Desk *d, const Tick *t) {
    show(d, t);
    on_book(d);
    settle(d);
    return d->qty;
}
extern "C" u64 desk_bytes() { return sizeof(Desk); }
extern "C" void desk_begin(Desk *d, i64 bid, i64 ask, i64 levels, const i64 *qty) {
    memset(d, 0, sizeof(Desk));
    for (int side = BUY; side <= SELL; side++) {
        d->sides[side].count = levels;
        for (i64 i = 0; i < levels; i++) {
            d->sides[side].price[i] = side == BUY ? bid - i : ask + i;
            d->sides[side].qty[i] = qty[side * levels + i];
        }
    }
}
extern "C" void counts_of(Desk *d, i64 **counts) {
    counts[0] = &d->out_orders.count, counts[1] = &d->out_fills.count, counts[2] = &d->out_pnl.count;
    counts[3] = &d->out_rejects.count, counts[4] = nullptr;
}

// ---- loops ----

// One side: a function of the desk's memory (and of ours the record of faults and the program's state) and an input, which gives an i64;
// `after`, where it isn't null, is called behind each batch of 16, outside of what is timed. `counts` are the records to be collected.
struct Subject {
    void *f, *after;
    void *record, *desk, *state;
    const char *in;
    i64 stride, inputs;
    i64 *counts[8];
    u64 stop;
};
using Hand = i64 (*)(void *, const void *);
using Ours = i64 (*)(void *, void *, void *, const void *, void *);

static inline u64 cycles() { _mm_lfence(); u64 at = __rdtsc(); _mm_lfence(); return at; }
static double now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <bool ours> static inline i64 called(void *f, Subject *s, const void *in) {
    if (!ours) return ((Hand)f)(s->desk, in);
    i64 result = 0;
    s->stop |= ((Ours)f)(s->record, s->desk, s->state, in, &result);
    return result;
}
static inline void collect(Subject *s) { for (i64 **c = s->counts; *c; c++) **c = 0; }

// Results of `n` calls, one by one.
template <bool ours> static void results(Subject *s, i64 from, i64 n, i64 *out) {
    for (i64 i = from; i < from + n; i++) {
        out[i - from] = called<ours>(s->f, s, s->in + i % s->inputs * s->stride);
        if (i % 16 == 15) { if (s->after) called<ours>(s->after, s, s->in); collect(s); }
    }
}
// Nanoseconds of a call over `n` calls, nothing timed inside; `sum` is that of the results.
template <bool ours> static double mean(Subject *s, i64 n, i64 *sum) {
    void *volatile held = s->f;
    i64 total = 0, at = 0;
    double start = now();
    for (i64 i = 0; i < n; i++) {
        total += called<ours>(held, s, s->in + at * s->stride);
        if (++at == s->inputs) at = 0;
        if (i % 1024 == 1023) collect(s);
    }
    double end = now();
    *sum = total;
    return (end - start) / n;
}
// Cycles of each of `n` batches of 16 calls, less what an empty one takes.
template <bool ours> static void batches(Subject *s, i64 n, double *out, double *ns) {
    void *volatile held = s->f;
    u64 least = ~0ull;
    for (i64 i = 0; i < 1000; i++) { u64 begin = cycles(), end = cycles(); least = end - begin < least ? end - begin : least; }
    double start = now();
    u64 first = cycles();
    i64 at = 0;
    for (i64 i = 0; i < n; i++) {
        u64 begin = cycles();
        for (i64 k = 0; k < 16; k++) {
            called<ours>(held, s, s->in + at * s->stride);
            if (++at == s->inputs) at = 0;
        }
        u64 took = cycles() - begin;
        out[i] = took > least ? double(took - least) / 16 : 0;
        if (s->after) called<ours>(s->after, s, s->in);
        collect(s);
    }
    *ns = (now() - start) / double(cycles() - first);
}
// Cycles of each of `n` single calls, less what an empty one takes; `least` is that.
template <bool ours> static double singles(Subject *s, i64 n, double *out) {
    void *volatile held = s->f;
    u64 least = ~0ull;
    for (i64 i = 0; i < 1000; i++) { u64 begin = cycles(), end = cycles(); least = end - begin < least ? end - begin : least; }
    i64 at = 0;
    for (i64 i = 0; i < n; i++) {
        u64 begin = cycles();
        called<ours>(held, s, s->in + at * s->stride);
        u64 took = cycles() - begin;
        if (++at == s->inputs) at = 0;
        out[i] = took > least ? double(took - least) : 0;
        if (i % 16 == 15) { if (s->after) called<ours>(s->after, s, s->in); collect(s); }
    }
    return double(least);
}
#define LOOPS(name, ours)                                                                                       \
    extern "C" void results_##name(Subject *s, i64 from, i64 n, i64 *out) { results<ours>(s, from, n, out); }   \
    extern "C" double mean_##name(Subject *s, i64 n, i64 *sum) { return mean<ours>(s, n, sum); }                \
    extern "C" void batches_##name(Subject *s, i64 n, double *out, double *ns) { batches<ours>(s, n, out, ns); } \
    extern "C" double singles_##name(Subject *s, i64 n, double *out) { return singles<ours>(s, n, out); }
LOOPS(hand, false)
LOOPS(ours, true)
