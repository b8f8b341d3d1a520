/* What one or several cores can do at most: a copy, and chains of fused products in registers. */
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define WIDTH 64
#elif defined(__AVX2__)
#define WIDTH 32
#else
#define WIDTH 16
#endif

typedef float floats __attribute__((vector_size(WIDTH)));
typedef double doubles __attribute__((vector_size(WIDTH)));

/* Bytes of a vector. */
int64_t width(void) { return WIDTH; }

void copy(const char *restrict source, char *restrict target, int64_t bytes, int64_t threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t part = 0; part < threads; part++) {
        int64_t begin = bytes / threads * part, end = part + 1 == threads ? bytes : bytes / threads * (part + 1);
        memcpy(target + begin, source + begin, end - begin);
    }
}

#define CHAINS(NAME, VECTOR, TYPE)                                                                                   \
    void NAME(TYPE *result, int64_t turns, int64_t threads) {                                                        \
        _Pragma("omp parallel for num_threads(threads)") for (int64_t part = 0; part < threads; part++) {            \
            VECTOR s[12], a, b;                                                                                      \
            for (int i = 0; i < WIDTH / (int)sizeof(TYPE); i++) a[i] = result[0], b[i] = result[1];                     \
            for (int c = 0; c < 12; c++) s[c] = b + (TYPE)c;                                                         \
            for (int64_t t = 0; t < turns; t++)                                                                      \
                for (int c = 0; c < 12; c++) s[c] = s[c] * a + b;                                                    \
            for (int c = 1; c < 12; c++) s[0] += s[c];                                                               \
            result[2 + part] = s[0][0];                                                                              \
        }                                                                                                            \
    }

CHAINS(chains_f32, floats, float)
CHAINS(chains_f64, doubles, double)

/* Entries of a table where `places` say are read, or changed: those of a type, or each line of a cache that larger ones lie in. A thread
   has a table of its own, which lies `apart` bytes behind the one before. The empty assembly keeps each access as it is written. */
#define LOOKUPS(NAME, TYPE, ACCESS)                                                                                  \
    void NAME(char *table, const uint32_t *places, int64_t count, int64_t bytes, int64_t apart, int64_t threads) {    \
        _Pragma("omp parallel for num_threads(threads)") for (int64_t part = 0; part < threads; part++) {            \
            TYPE *restrict own = (TYPE *)(table + apart * part);                                                              \
            const uint32_t *some = places + count / threads * part, *end = some + count / threads;                    \
            for (; some + 16 <= end; some += 16)                                                                     \
                for (int i = 0; i < 16; i++) { ACCESS }                                                              \
        }                                                                                                            \
    }

#define READ(PLACE) __asm__ volatile("" : : "r"(PLACE));
#define CHANGE(PLACE) PLACE++; __asm__ volatile("" : : : "memory");
#define EACH_LINE for (int64_t line = some[i] * bytes, next = line + bytes; line < next; line += 64)

LOOKUPS(reads_of_1, int8_t, READ(own[some[i]]))
LOOKUPS(reads_of_2, int16_t, READ(own[some[i]]))
LOOKUPS(reads_of_4, int32_t, READ(own[some[i]]))
LOOKUPS(reads_of_8, int64_t, READ(own[some[i]]))
LOOKUPS(reads_of_any, int8_t, EACH_LINE READ(own[line]))
LOOKUPS(changes_of_4, int32_t, CHANGE(own[some[i]]))
LOOKUPS(changes_of_8, int64_t, CHANGE(own[some[i]]))
LOOKUPS(changes_of_any, int8_t, EACH_LINE { CHANGE(own[line]) })

/* Branches that go as `ways` say. */
void branches(const char *ways, int64_t count, int64_t threads) {
#pragma omp parallel for num_threads(threads)
    for (int64_t part = 0; part < threads; part++)
        for (int64_t i = count / threads * part; i < count / threads * (part + 1); i++)
            if (ways[i]) __asm__ volatile("nop");
}
