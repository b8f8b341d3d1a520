// The functions of host_functions.zynml, every operation checked where theirs is. A failure gives -1.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef int64_t i64;
typedef struct { i64 a, b, c, d; } matrix;

#define ADD(x, y, to) if (__builtin_expect(__builtin_add_overflow((i64)(x), (i64)(y), to), 0)) return -1
#define MUL(x, y, to) if (__builtin_expect(__builtin_mul_overflow((i64)(x), (i64)(y), to), 0)) return -1
#define IN(i, n) if (__builtin_expect((uint64_t)(i) >= (uint64_t)(n), 0)) return -1

i64 collatz(i64 limit) {
    i64 longest = 0, n = 1;
    while (n < limit) {
        i64 x = n, steps = 0;
        while (x != 1) {
            if (x % 2 == 0) x = x / 2;
            else { MUL(3, x, &x); ADD(x, 1, &x); }
            ADD(steps, 1, &steps);
        }
        if (steps > longest) longest = steps;
        ADD(n, 1, &n);
    }
    return longest;
}

i64 sieve(i64 rounds) {
    i64 total = 0;
    for (i64 round = 0; round < rounds; round++) {
        bool composite[8000];
        memset(composite, 0, sizeof composite);
        i64 count = 0, i;
        ADD(total, round, &i);
        i = i % 2;
        ADD(2, i, &i);
        while (i < 8000) {
            IN(i, 8000);
            if (!composite[i]) {
                ADD(count, 1, &count);
                i64 j;
                MUL(i, 2, &j);
                while (j < 8000) {
                    IN(j, 8000);
                    composite[j] = true;
                    ADD(j, i, &j);
                }
            }
            ADD(i, 1, &i);
        }
        ADD(total, count, &total);
    }
    return total;
}

i64 mandelbrot(i64 size, i64 limit) {
    i64 total = 0;
    for (i64 row = 0; row < size; row++) {
        for (i64 column = 0; column < size; column++) {
            double cx = 3.0 * (double)column / (double)size - 2.25, cy = 2.5 * (double)row / (double)size - 1.25, x = 0.0, y = 0.0;
            i64 n = 0;
            while (n < limit && x * x + y * y <= 4.0) {
                double next = x * x - y * y + cx;
                y = 2.0 * x * y + cy;
                x = next;
                ADD(n, 1, &n);
            }
            ADD(total, n, &total);
        }
    }
    return total;
}

static i64 cell(i64 p, i64 q, i64 r, i64 s, i64 modulus, i64 *to) {
    i64 one, other;
    MUL(p, q, &one);
    MUL(r, s, &other);
    ADD(one, other, &one);
    if (__builtin_expect(modulus == 0, 0)) return -1;
    *to = modulus == -1 ? 0 : one % modulus;
    return 0;
}

static i64 product(matrix x, matrix y, i64 modulus, matrix *to) {
    matrix found;
    if (cell(x.a, y.a, x.b, y.c, modulus, &found.a) || cell(x.a, y.b, x.b, y.d, modulus, &found.b)) return -1;
    if (cell(x.c, y.a, x.d, y.c, modulus, &found.c) || cell(x.c, y.b, x.d, y.d, modulus, &found.d)) return -1;
    *to = found;
    return 0;
}

static i64 power(matrix base, i64 exponent, i64 modulus, matrix *to) {
    matrix result = {1, 0, 0, 1}, square = base;
    i64 left = exponent;
    while (left > 0) {
        if (left % 2 == 1 && product(result, square, modulus, &result)) return -1;
        if (product(square, square, modulus, &square)) return -1;
        left = left / 2;
    }
    *to = result;
    return 0;
}

i64 exponent(i64 rounds) {
    i64 seed = 1;
    for (i64 round = 0; round < rounds; round++) {
        matrix base = {1, 1, seed % 7, 0}, found;
        i64 to;
        ADD(1000000, seed % 1000, &to);
        if (power(base, to, 1000000007, &found)) return -1;
        ADD(found.b, round, &seed);
        seed = seed % 1000000007;
    }
    return seed;
}
