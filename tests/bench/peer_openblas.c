/* SPDX-License-Identifier: Apache-2.0
 *
 * Times single-precision matrix products of OpenBLAS, the peer of `cltrain bench gemm`. Built by
 * bench_gemm.sh where OpenBLAS's headers are installed; cltrain itself never links it. Random operands,
 * median of batches as on our side.
 *
 * usage: peer_openblas SECONDS MxNxK:LAYOUT ... -> one line per product: m n k layout ms gflops */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *matrix(size_t count)
{
    float *p = aligned_alloc(64, (count * sizeof *p + 63) / 64 * 64);
    unsigned state = 12345;
    if (!p)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return p;
}

typedef struct product {
    int m, n, k, ta, tb;
    float *a, *b, *c;
} product;

static double run(const product *p, int times)
{
    double start = now();
    for (int i = 0; i < times; i++)
        cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans, p->m,
                    p->n, p->k, 1.0f, p->a, p->ta ? p->m : p->k, p->b, p->tb ? p->k : p->n, 0.0f, p->c, p->n);
    return now() - start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_seconds(const product *p, double budget)
{
    double each[BATCHES], wanted = budget / BATCHES;
    run(p, 1);
    double once = run(p, 1);
    int times = once < wanted ? (int)(wanted / once) + 1 : 1;
    for (int i = 0; i < BATCHES; i++)
        each[i] = run(p, times) / times;
    qsort(each, BATCHES, sizeof each[0], by_value);
    return each[BATCHES / 2];
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: peer_openblas SECONDS MxNxK:LAYOUT ...\n");
        return 2;
    }
    printf("# %s, %d threads\n", openblas_get_config(), openblas_get_num_threads());
    for (int i = 2; i < argc; i++) {
        product p = {0};
        char layout[3];
        if (sscanf(argv[i], "%dx%dx%d:%2s", &p.m, &p.n, &p.k, layout) != 4 || strlen(layout) != 2) {
            fprintf(stderr, "peer_openblas: '%s': expected for example 512x512x512:nt\n", argv[i]);
            return 2;
        }
        p.ta = layout[0] == 't';
        p.tb = layout[1] == 't';
        p.a = matrix((size_t)p.m * (size_t)p.k);
        p.b = matrix((size_t)p.k * (size_t)p.n);
        p.c = matrix((size_t)p.m * (size_t)p.n);
        double s = median_seconds(&p, atof(argv[1]));
        printf("%d %d %d %s %.5f %.2f\n", p.m, p.n, p.k, layout, s * 1e3, 2.0 * p.m * p.n * p.k / s * 1e-9);
        fflush(stdout);
        free(p.a);
        free(p.b);
        free(p.c);
    }
    return 0;
}
