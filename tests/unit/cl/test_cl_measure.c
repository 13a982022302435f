/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured limits compared with native C loops with intrinsics, alternating in one run. Percentages of a
 * peak refer to these limits, so on a CPU device they must not be more than 5 % below what the machine
 * really reaches: the FMA peak must be within 5 % of the native loop's, and the streams, with plain and
 * with non-temporal stores, must reach at least 95 % of the native one. A compiler may traverse the arrays
 * in an order that suits the memory better than the native loop's, so streams may be faster. A third more
 * would be a fault: it means that cache lines which plain stores read first are counted, too. The test
 * compares ratios, never seconds. Rounds are repeated while the two sides differ: for the peak both keep
 * their best value, because other users of the machine can only slow them down, and the native loop is also
 * timed by the processor time of its threads, because runs without any interruption are rare where there
 * are many users; streams are compared run by run. */
/* ctest-labels: full */
#include "tests/unit/cl/cl_test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cl/device/internal.h"
#include "cl/measure/limits.h"
#include "cl/measure/timing.h"
#include "engine/base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_NATIVE 1
#define TARGET_512 __attribute__((target("avx512f")))
#define TARGET_256 __attribute__((target("avx2,fma")))
#endif

#if defined(__clang__)
#define LOOP __attribute__((no_sanitize("address", "undefined")))
#else
#define LOOP __attribute__((no_sanitize("address", "undefined"), optimize("O2")))
#endif

#define MAX_ROUNDS 40
#define LEAST_ROUNDS 3
#define STREAM_ROUNDS 101
#define LEAST_STREAM_ROUNDS 11
#define TOLERANCE 0.05
#define MISCOUNTED (4.0 / 3.0)

#ifdef HAVE_NATIVE

/* Work is handed out in parts, as an OpenCL CPU driver hands out work-groups. */
typedef struct job {
    void (*part)(struct job *job, size_t index);
    size_t parts;
    atomic_size_t next;
    float *a, *b, *c; /* triad: count elements */
    size_t count;
    uint64_t rounds; /* FMA */
    _Atomic float sink;
    atomic_int ended; /* threads */
    double cpu[256];  /* each thread's processor time in seconds */
} job;

static void *worker(void *context)
{
    job *j = context;
    double start = clt_thread_cpu();
    for (size_t i = atomic_fetch_add(&j->next, 1); i < j->parts; i = atomic_fetch_add(&j->next, 1))
        j->part(j, i);
    j->cpu[atomic_fetch_add(&j->ended, 1)] = clt_thread_cpu() - start;
    return NULL;
}

static double run_job(job *j, int threads)
{
    pthread_t thread[256];
    int started = 0;
    atomic_store(&j->next, 0);
    atomic_store(&j->ended, 0);
    double start = clt_now();
    for (; started < threads - 1 && started < 255; started++)
        assert_int_equal(pthread_create(&thread[started], NULL, worker, j), 0);
    worker(j);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return clt_now() - start;
}

#define CHAINS 12

/* 12 chains: more than latency 4 times 2 ports, and with 16 registers still in registers. */
LOOP TARGET_512 static void fma_512(job *j, size_t index)
{
    __m512 x0 = _mm512_set1_ps((float)index), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0, x6 = x0, x7 = x0,
           x8 = x0, x9 = x0, x10 = x0, x11 = x0;
    const __m512 f = _mm512_set1_ps(0.999f), d = _mm512_set1_ps(0.001f);
    for (uint64_t r = 0; r < j->rounds; r++) {
        x0 = _mm512_fmadd_ps(x0, f, d);
        x1 = _mm512_fmadd_ps(x1, f, d);
        x2 = _mm512_fmadd_ps(x2, f, d);
        x3 = _mm512_fmadd_ps(x3, f, d);
        x4 = _mm512_fmadd_ps(x4, f, d);
        x5 = _mm512_fmadd_ps(x5, f, d);
        x6 = _mm512_fmadd_ps(x6, f, d);
        x7 = _mm512_fmadd_ps(x7, f, d);
        x8 = _mm512_fmadd_ps(x8, f, d);
        x9 = _mm512_fmadd_ps(x9, f, d);
        x10 = _mm512_fmadd_ps(x10, f, d);
        x11 = _mm512_fmadd_ps(x11, f, d);
        /* equal chains would be computed once */
        __asm__ volatile(""
                         : "+v"(x0), "+v"(x1), "+v"(x2), "+v"(x3), "+v"(x4), "+v"(x5), "+v"(x6), "+v"(x7),
                           "+v"(x8), "+v"(x9), "+v"(x10), "+v"(x11));
    }
    x0 = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(x0, x1), _mm512_add_ps(x2, x3)),
                       _mm512_add_ps(_mm512_add_ps(x4, x5), _mm512_add_ps(x6, x7)));
    x0 = _mm512_add_ps(x0, _mm512_add_ps(_mm512_add_ps(x8, x9), _mm512_add_ps(x10, x11)));
    atomic_store(&j->sink, _mm512_cvtss_f32(x0));
}

LOOP TARGET_256 static void fma_256(job *j, size_t index)
{
    __m256 x0 = _mm256_set1_ps((float)index), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0, x6 = x0, x7 = x0,
           x8 = x0, x9 = x0, x10 = x0, x11 = x0;
    const __m256 f = _mm256_set1_ps(0.999f), d = _mm256_set1_ps(0.001f);
    for (uint64_t r = 0; r < j->rounds; r++) {
        x0 = _mm256_fmadd_ps(x0, f, d);
        x1 = _mm256_fmadd_ps(x1, f, d);
        x2 = _mm256_fmadd_ps(x2, f, d);
        x3 = _mm256_fmadd_ps(x3, f, d);
        x4 = _mm256_fmadd_ps(x4, f, d);
        x5 = _mm256_fmadd_ps(x5, f, d);
        x6 = _mm256_fmadd_ps(x6, f, d);
        x7 = _mm256_fmadd_ps(x7, f, d);
        x8 = _mm256_fmadd_ps(x8, f, d);
        x9 = _mm256_fmadd_ps(x9, f, d);
        x10 = _mm256_fmadd_ps(x10, f, d);
        x11 = _mm256_fmadd_ps(x11, f, d);
        __asm__ volatile(""
                         : "+x"(x0), "+x"(x1), "+x"(x2), "+x"(x3), "+x"(x4), "+x"(x5), "+x"(x6), "+x"(x7),
                           "+x"(x8), "+x"(x9), "+x"(x10), "+x"(x11));
    }
    x0 = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(x0, x1), _mm256_add_ps(x2, x3)),
                       _mm256_add_ps(_mm256_add_ps(x4, x5), _mm256_add_ps(x6, x7)));
    x0 = _mm256_add_ps(x0, _mm256_add_ps(_mm256_add_ps(x8, x9), _mm256_add_ps(x10, x11)));
    atomic_store(&j->sink, _mm256_cvtss_f32(x0));
}

static void part_range(const job *j, size_t index, size_t *first, size_t *end)
{
    size_t part = (j->count / 16 + j->parts - 1) / j->parts * 16;
    *first = part * index < j->count ? part * index : j->count;
    *end = *first + part < j->count ? *first + part : j->count;
}

LOOP TARGET_512 static void triad_512(job *j, size_t index)
{
    size_t i, end;
    const __m512 s = _mm512_set1_ps(3.0f);
    part_range(j, index, &i, &end);
    for (; i < end; i += 16)
        _mm512_store_ps(j->a + i, _mm512_fmadd_ps(s, _mm512_load_ps(j->c + i), _mm512_load_ps(j->b + i)));
}

LOOP TARGET_256 static void triad_256(job *j, size_t index)
{
    size_t i, end;
    const __m256 s = _mm256_set1_ps(3.0f);
    part_range(j, index, &i, &end);
    for (; i < end; i += 8)
        _mm256_store_ps(j->a + i, _mm256_fmadd_ps(s, _mm256_load_ps(j->c + i), _mm256_load_ps(j->b + i)));
}

LOOP TARGET_512 static void triad_nt_512(job *j, size_t index)
{
    size_t i, end;
    const __m512 s = _mm512_set1_ps(3.0f);
    part_range(j, index, &i, &end);
    for (; i < end; i += 16)
        _mm512_stream_ps(j->a + i, _mm512_fmadd_ps(s, _mm512_load_ps(j->c + i), _mm512_load_ps(j->b + i)));
    _mm_sfence();
}

LOOP TARGET_256 static void triad_nt_256(job *j, size_t index)
{
    size_t i, end;
    const __m256 s = _mm256_set1_ps(3.0f);
    part_range(j, index, &i, &end);
    for (; i < end; i += 8)
        _mm256_stream_ps(j->a + i, _mm256_fmadd_ps(s, _mm256_load_ps(j->c + i), _mm256_load_ps(j->b + i)));
    _mm_sfence();
}

LOOP static void first_touch(job *j, size_t index)
{
    size_t i, end;
    part_range(j, index, &i, &end);
    for (; i < end; i++) {
        j->a[i] = 0.0f;
        j->b[i] = 1.0f;
        j->c[i] = 2.0f;
    }
}

typedef struct native {
    job job;
    int threads, width; /* width: floats in a vector */
    void (*fma)(job *, size_t), (*triad)(job *, size_t), (*triad_nt)(job *, size_t);
    double gflops, cpu_gflops; /* best so far: by the clock, and by processor time */
} native;

static bool native_begin(native *n, const ocl_device *device)
{
    cl_ulong cache = 0;
    memset(n, 0, sizeof *n);
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        n->width = 16;
        n->fma = fma_512;
        n->triad = triad_512;
        n->triad_nt = triad_nt_512;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        n->width = 8;
        n->fma = fma_256;
        n->triad = triad_256;
        n->triad_nt = triad_nt_256;
    } else {
        return false;
    }
    n->threads = (int)device->desc.compute_units;
    n->job.parts = (size_t)n->threads * 64;
    assert_int_equal(clGetDeviceInfo(device->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL),
                     CL_SUCCESS);
    uint64_t total = 4 * cache > (UINT64_C(192) << 20) ? 4 * cache : UINT64_C(192) << 20;
    total = total < device->desc.usable_bytes / 4 ? total : device->desc.usable_bytes / 4;
    n->job.count = total / 12 / 1024 * 1024;
    float **array[3] = {&n->job.a, &n->job.b, &n->job.c};
    for (int i = 0; i < 3; i++) {
        *array[i] = aligned_alloc(128, n->job.count * sizeof(float));
        assert_non_null(*array[i]);
    }
    n->job.part = first_touch;
    (void)run_job(&n->job, n->threads);
    return true;
}

static void native_end(native *n)
{
    free(n->job.a);
    free(n->job.b);
    free(n->job.c);
}

static void native_round(native *n)
{
    int cores = n->threads < clt_cpu_count() ? n->threads : clt_cpu_count();
    n->job.part = n->fma;
    n->job.rounds = 200000;
    for (double until = clt_now() + 0.3; clt_now() < until;) {
        double work = 2.0 * CHAINS * n->width * (double)n->job.rounds * (double)n->job.parts;
        n->gflops = fmax(n->gflops, work / run_job(&n->job, n->threads) * 1e-9);
        double cpu = 0;
        for (int i = 0; i < atomic_load(&n->job.ended); i++)
            cpu += n->job.cpu[i];
        n->cpu_gflops = fmax(n->cpu_gflops, work / (cpu / cores) * 1e-9);
    }
}

/* Ratios of runs one right after the other: where other machines use the memory, too, its speed may double
 * from one second to the next, and then does so for both. */
typedef struct ratios {
    double value[STREAM_ROUNDS];
    int count;
} ratios;

static double middle(const ratios *r)
{
    double sorted[STREAM_ROUNDS];
    memcpy(sorted, r->value, sizeof sorted);
    return ocl_median(sorted, r->count);
}

static void stream_pair(native *n, const ocl_stream *stream, bool nontemporal, ratios *r)
{
    double ocl, gbs[2];
    n->job.part = nontemporal ? n->triad_nt : n->triad;
    for (int side = 0; side < 2; side++) {
        gbs[side] = 12.0 * (double)n->job.count / run_job(&n->job, n->threads) * 1e-9;
        if (side == 0)
            assert_ok(ocl_stream_triad(stream, nontemporal, &ocl));
    }
    r->value[r->count++] = ocl / sqrt(gbs[0] * gbs[1]);
}

static bool close_to(double a, double b)
{
    return a > b * (1.0 - TOLERANCE) && a < b * (1.0 + TOLERANCE);
}

static bool is_peak(double gflops, const native *n)
{
    return close_to(gflops, n->gflops) || close_to(gflops, n->cpu_gflops);
}

/* The ratio of a stream's measured rate to the native loop's. */
static bool is_credible(double ratio)
{
    return ratio > 1.0 - TOLERANCE && ratio < MISCOUNTED * (1.0 - TOLERANCE);
}

static ocl_device *open_cpu(native *n)
{
    ocl_device *device = test_open(false);
    if (device->desc.is_cpu && native_begin(n, device))
        return device;
    print_message("skipped: %s\n",
                  device->desc.is_cpu ? "the CPU has neither AVX-512 nor AVX2 with FMA" : "not a CPU device");
    ocl_device_close(device);
    skip();
    return NULL;
}

TEST(test_streams_are_native)
{
    native n;
    ocl_device *device = open_cpu(&n);
    bool two = (device->desc.caps & OCL_CAP_NONTEMPORAL) != 0, agree = false;
    ratios plain = {.count = 0}, past = {.count = 0};
    ocl_stream *stream;
    assert_ok(ocl_stream_create(device, &stream));
    while (plain.count < STREAM_ROUNDS && !agree) {
        stream_pair(&n, stream, false, &plain);
        if (two)
            stream_pair(&n, stream, true, &past);
        agree = plain.count >= LEAST_STREAM_ROUNDS && is_credible(middle(&plain)) &&
                (!two || is_credible(middle(&past)));
    }
    print_message("triad against the native loop: plain stores %.1f %%, past the caches %.1f %%, %d rounds\n",
                  100.0 * middle(&plain), two ? 100.0 * middle(&past) : 0.0, plain.count);
    ocl_stream_destroy(stream);
    native_end(&n);
    ocl_device_close(device);
    assert_true(agree);
}

TEST(test_peak_is_native)
{
    native n;
    ocl_device *device = open_cpu(&n);
    double best = 0.0;
    for (int round = 0; round < MAX_ROUNDS && !(round >= LEAST_ROUNDS && is_peak(best, &n)); round++) {
        ocl_limits now;
        native_round(&n);
        assert_ok(ocl_measure_limits(device, 1.0, &now));
        best = now.fma_peak_gflops > best ? now.fma_peak_gflops : best;
    }
    print_message("FMA: OpenCL %.1f, native %.1f GFLOP/s (%.1f %%), by processor time %.1f\n", best, n.gflops,
                  100.0 * best / n.gflops, n.cpu_gflops);
    bool agree = is_peak(best, &n);
    native_end(&n);
    ocl_device_close(device);
    assert_true(agree);
}

#else

static void skip_native(void)
{
    print_message("skipped: the native loops are written for x86-64 only\n");
    skip();
}

TEST(test_peak_is_native)
{
    skip_native();
}

TEST(test_streams_are_native)
{
    skip_native();
}

#endif

/* Every field is measured, and nothing stays allocated. */
TEST(test_all_fields)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_limits l;
    assert_ok(ocl_measure_limits(device, 0.2, &l));
    const double values[] = {l.fma_peak_gflops, l.stream_gbs, l.plain_stream_gbs, l.copy_gbs,
                             l.read_gbs,        l.h2d_gbs,    l.d2h_gbs,          l.launch_us};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (!(values[i] > 0.0 && values[i] < 1e7))
            fail_msg("limit %zu is %g", i, values[i]);
    assert_true(l.stream_gbs >= l.plain_stream_gbs);
    assert_true(ocl_device_bytes(device) == 0);
}

/* A launch in a series costs no more than a launch that is waited for, with time stamps and without. For
 * both the least of several times counts. */
TEST(test_launches)
{
    for (int stamped = 0; stamped < 2; stamped++) {
        CLT_SCOPED(ocl_device) *device = test_open(stamped);
        ocl_launch_times least = {.in_row_us = INFINITY, .alone_us = INFINITY};
        for (int round = 0; round < MAX_ROUNDS && !(least.in_row_us < 1.5 * least.alone_us); round++) {
            ocl_launch_times t;
            assert_ok(ocl_measure_launches(device, 0.1, &t));
            assert_true(t.in_row_us > 0.0 && t.in_row_event_us > 0.0 && t.alone_us > 0.0);
            least.in_row_us = fmin(least.in_row_us, t.in_row_us);
            least.alone_us = fmin(least.alone_us, t.alone_us);
        }
        assert_true(least.in_row_us < 1.5 * least.alone_us);
        assert_true(ocl_device_bytes(device) == 0);
    }
}

/* A stream can be run again and again, in both kinds of stores, and gives its memory back. */
TEST(test_stream)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_stream *stream;
    assert_ok(ocl_stream_create(device, &stream));
    for (int i = 0; i < 4; i++) {
        double gbs = 0.0;
        assert_ok(ocl_stream_triad(stream, i % 2, &gbs));
        assert_true(gbs > 0.0 && gbs < 1e7);
    }
    ocl_stream_destroy(stream);
    assert_true(ocl_device_bytes(device) == 0);
}

TEST_PROGRAM(.device = true);
