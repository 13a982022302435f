/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench allreduce: times sums over ranks and prints them in the form of nccl-tests: for each size
 * from -b to -e, in steps by the factor -f, it prints the time, the algorithm and bus bandwidth, and the
 * number of wrong elements. With --staging each sum starts and ends in device memory, as gradients do.
 * --bound also measures the speed of memory, --native the MPI library's all-reduce, both alternating with
 * the sums. allreduce_run.c runs the sums. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/allreduce_run.h"
#include "cli/bench/bench.h"
#include "engine/base/dtype.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/json/json.h"

typedef struct allreduce_bench {
    int64_t first, last, factor, runs, warmup;
    const char *op, *algorithm, *dtype;
    bool bound, native, half_between;
    clt_dtype element;
    allreduce_run run;
    void *values;
    clt_json_writer writer;
} allreduce_bench;

/* Parses a size such as "128M" into bytes; the suffixes K, M and G are powers of 1024. */
static clt_status parse_size(const char *option, const char *text, int64_t *out)
{
    char *end;
    double value = strtod(text, &end);
    int64_t unit = *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : *end == 'G' ? 1024 * 1024 * 1024 : 1;
    if (end == text || (*end && end[1]) || (*end && unit == 1) || !(value > 0) || value * (double)unit > 1e12)
        CLT_FAIL(CLT_EUSAGE, "cltrain bench allreduce: %s '%s': expected a size such as 4096, 64K or 128M",
                 option, text);
    *out = (int64_t)(value * (double)unit);
    return CLT_OK;
}

/* Integers from 0 to 30, whose sums are exact for up to 8 ranks in 16-bit types and 2^19 ranks in f32. */
static double value_of(int64_t i, int rank)
{
    return (double)((i + rank) % 31);
}

static clt_status fill(allreduce_bench *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        clt_dtype_store(b->element, b->values, (size_t)i, value_of(i, b->run.info->rank));
    return allreduce_put(&b->run, b->values, count);
}

/* Counts the wrong values among `length` values from index `first`: each must be the sum over the ranks from
 * `from` to `to`. */
static int64_t wrong_among(const allreduce_bench *b, int64_t first, int64_t length, int from, int to)
{
    double sum[31] = {0};
    int64_t wrong = 0;
    for (int k = 0; k < 31; k++) {
        for (int r = from; r <= to; r++)
            sum[k] += value_of(k, r);
        float rounded[1]; /* room for any of the types */
        clt_dtype_store(b->element, rounded, 0, sum[k]);
        sum[k] = clt_dtype_load(b->element, rounded, 0);
    }
    for (int64_t i = first; i < first + length; i++)
        wrong += clt_dtype_load(b->element, b->values, (size_t)i) != sum[i % 31];
    return wrong;
}

static clt_status count_wrong(allreduce_bench *b, int64_t count, int64_t *wrong)
{
    int64_t first = 0, length = count;
    int last = b->run.info->ranks - 1;
    CLT_TRY(allreduce_get(&b->run, b->values, count));
    *wrong = 0;
    if (b->run.kind == COMM_REDUCE_SCATTER)
        allreduce_share(&b->run, count, b->run.info->rank, &first, &length);
    for (int r = 0; r <= last && b->run.kind == COMM_ALL_GATHER; r++) {
        allreduce_share(&b->run, count, r, &first, &length);
        *wrong += wrong_among(b, first, length, r, r);
    }
    if (b->run.kind != COMM_ALL_GATHER)
        *wrong = wrong_among(b, first, length, 0, last);
    return comm_all_reduce(b->run.c, wrong, 1, COMM_I64, COMM_SUM);
}

/* The mean and the shortest of all runs, in seconds. */
typedef struct timing {
    double mean, best;
} timing;

static void add_run(const allreduce_bench *b, timing *t, double seconds)
{
    t->mean += seconds / (double)b->runs;
    t->best = t->best == 0 || seconds < t->best ? seconds : t->best;
}

/* Times one sum: from when all ranks have arrived until the slowest rank has its result. */
static clt_status time_sum(allreduce_bench *b, clt_status (*sum)(allreduce_run *, int64_t), int64_t count,
                           double *seconds)
{
    CLT_TRY(comm_barrier(b->run.c));
    double begin = clt_now();
    CLT_TRY(sum(&b->run, count));
    *seconds = clt_now() - begin;
    return comm_all_reduce(b->run.c, seconds, 1, COMM_F64, COMM_MAX);
}

typedef struct row {
    int64_t bytes, count, wrong;
    timing sum, native, alone, together; /* alone, together: allreduce_pass with `alone` true and false */
} row;

static clt_status clear(allreduce_bench *b, int64_t count)
{
    /* repeated sums of the same values would overflow */
    memset(b->values, 0, (size_t)(count * comm_type_bytes(b->run.type)));
    return allreduce_put(&b->run, b->values, count);
}

/* Runs each measurement once. Measurements alternate, because the speed of a shared machine changes. */
static clt_status run_once(allreduce_bench *b, row *r, bool counts)
{
    row unused = {0}, *to = counts ? r : &unused;
    double seconds;
    if (b->bound) {
        CLT_TRY(allreduce_pass(&b->run, r->bytes, true, &seconds));
        add_run(b, &to->alone, seconds);
        CLT_TRY(allreduce_pass(&b->run, r->bytes, false, &seconds));
        add_run(b, &to->together, seconds);
        CLT_TRY(clear(b, r->count));
    }
    CLT_TRY(time_sum(b, allreduce_sum, r->count, &seconds));
    add_run(b, &to->sum, seconds);
    if (!b->native)
        return CLT_OK;
    CLT_TRY(time_sum(b, allreduce_native, r->count, &seconds));
    add_run(b, &to->native, seconds);
    return CLT_OK;
}

static clt_status measure(allreduce_bench *b, row *r)
{
    CLT_TRY(fill(b, r->count));
    CLT_TRY(allreduce_sum(&b->run, r->count));
    CLT_TRY(count_wrong(b, r->count, &r->wrong));
    CLT_TRY(clear(b, r->count));
    for (int64_t i = -b->warmup; i < b->runs; i++)
        CLT_TRY(run_once(b, r, i >= 0));
    return CLT_OK;
}

/* Least time of a sum, in seconds: the bytes that it must move, divided by the speed of memory when all
 * ranks use it. */
static double bound_of(const allreduce_bench *b, const row *r)
{
    return allreduce_bytes_moved(&b->run, r->count) / (2 * (double)r->bytes) * r->together.best;
}

/* Bytes that each rank must send, divided by the bytes of the data. */
static double bus_factor(const allreduce_bench *b)
{
    double n = b->run.info->ranks;
    return (b->run.kind == COMM_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

static void print_row(const allreduce_bench *b, const row *r)
{
    double algbw = (double)r->bytes / r->sum.mean * 1e-9;
    printf("%12lld %12lld %6s %5s %12.1f %8.2f %8.2f %7lld %12.1f", (long long)r->bytes, (long long)r->count,
           b->dtype, b->run.kind == COMM_ALL_GATHER ? "none" : "sum", r->sum.mean * 1e6, algbw,
           algbw * bus_factor(b), (long long)r->wrong, r->sum.best * 1e6);
    if (b->bound)
        printf(" %8.2f %8.2f %12.1f %6.1f", 2e-9 * (double)r->bytes / r->alone.best,
               2e-9 * (double)r->bytes / r->together.best, bound_of(b, r) * 1e6,
               100 * bound_of(b, r) / r->sum.best);
    if (b->native)
        printf(" %12.1f %6.2f", r->native.best * 1e6, r->native.best / r->sum.best);
    printf("\n");
    (void)fflush(stdout);
}

static void write_row(allreduce_bench *b, const row *r)
{
    double algbw = (double)r->bytes / r->sum.mean * 1e-9;
    char name[64];
    (void)snprintf(name, sizeof name, "%lld", (long long)r->bytes);
    clt_jw_object(&b->writer);
    clt_jw_kstring(&b->writer, "name", name);
    clt_jw_kint(&b->writer, "bytes", r->bytes);
    clt_jw_kdouble(&b->writer, "ms", r->sum.mean * 1e3);
    clt_jw_kdouble(&b->writer, "best_ms", r->sum.best * 1e3);
    clt_jw_kdouble(&b->writer, "algbw_gbs", algbw);
    clt_jw_kdouble(&b->writer, "busbw_gbs", algbw * bus_factor(b));
    clt_jw_kint(&b->writer, "wrong", r->wrong);
    if (b->bound) {
        clt_jw_kdouble(&b->writer, "memory_alone_gbs", 2e-9 * (double)r->bytes / r->alone.best);
        clt_jw_kdouble(&b->writer, "memory_together_gbs", 2e-9 * (double)r->bytes / r->together.best);
        clt_jw_kdouble(&b->writer, "bound_ms", bound_of(b, r) * 1e3);
    }
    if (b->native)
        clt_jw_kdouble(&b->writer, "native_best_ms", r->native.best * 1e3);
    clt_jw_end_object(&b->writer);
}

static clt_status run_size(allreduce_bench *b, int64_t bytes)
{
    row r = {.count = bytes / comm_type_bytes(b->run.type)};
    if (r.count == 0)
        return CLT_OK;
    r.bytes = r.count * comm_type_bytes(b->run.type);
    CLT_TRY(measure(b, &r));
    if (b->run.info->rank == 0)
        print_row(b, &r);
    write_row(b, &r);
    if (r.wrong)
        CLT_FAIL(CLT_ECHECK, "bench allreduce: %lld elements of %lld bytes are wrong", (long long)r.wrong,
                 (long long)r.bytes);
    return CLT_OK;
}

/* --- titles --- */

static const char *path_of(const allreduce_run *r)
{
    if (r->own_memory)
        return r->staging ? "device memory, by way of the rank's own memory" : "memory of the rank's own";
    return !r->staging    ? "memory that local ranks share"
           : r->zero_copy ? "device memory that local ranks share"
                          : "device memory, by way of memory that local ranks share";
}

static void print_head(const allreduce_bench *b)
{
    const comm_info *info = b->run.info;
    printf("# %s, %d rank%s on %d host%s, %s, algorithm %s, in place: %s\n", b->op, info->ranks,
           CLT_PLURAL(info->ranks), info->nodes, CLT_PLURAL(info->nodes), info->description,
           comm_chosen_algorithm(b->run.c), path_of(&b->run));
    printf("#%11s %12s %6s %5s %12s %8s %8s %7s %12s", "size", "count", "type", "redop", "time", "algbw",
           "busbw", "#wrong", "best");
    if (b->bound)
        printf(" %8s %8s %12s %6s", "1 core", "each", "bound", "reach");
    if (b->native)
        printf(" %12s %6s", "native", "ratio");
    printf("\n#%11s %12s %6s %5s %12s %8s %8s %7s %12s", "(B)", "(elements)", "", "", "(us)", "(GB/s)",
           "(GB/s)", "", "(us)");
    if (b->bound)
        printf(" %8s %8s %12s %6s", "(GB/s)", "(GB/s)", "(us)", "(%)");
    if (b->native)
        printf(" %12s", "(us)");
    printf("\n");
}

static clt_status run_sizes(allreduce_bench *b, clt_str *json)
{
    const comm_info *info = b->run.info;
    b->writer = bench_record(json, "allreduce");
    clt_jw_kstring(&b->writer, "op", b->op);
    clt_jw_kstring(&b->writer, "transport", info->transport);
    clt_jw_kstring(&b->writer, "algorithm", comm_chosen_algorithm(b->run.c));
    clt_jw_kstring(&b->writer, "path", path_of(&b->run));
    clt_jw_kint(&b->writer, "ranks", info->ranks);
    clt_jw_kint(&b->writer, "hosts", info->nodes);
    clt_jw_karray(&b->writer, "rows");
    if (info->rank == 0)
        print_head(b);
    for (int64_t bytes = b->first; bytes <= b->last; bytes *= b->factor)
        CLT_TRY(run_size(b, bytes));
    clt_jw_end_array(&b->writer);
    bench_record_end(&b->writer, json);
    return CLT_OK;
}

/* The context owns the communicator, so that main can report a failure before it ends the other ranks. */
static clt_status run(allreduce_bench *b, bench_common *common, cmd_context *context)
{
    CLT_SCOPED(clt_str) json = {0};
    allreduce_run *r = &b->run;
    CLT_TRY(bench_begin(common));
    CLT_TRY(comm_create(&context->comm));
    r->c = context->comm;
    r->info = context->ranks = comm_describe(r->c);
    r->bytes = b->last;
    const ocl_open_options open = {
        .spec = common->device, .caps_mask = common->caps_mask, .local_rank = r->info->local_rank};
    comm_set_half_between(r->c, b->half_between);
    clt_status status = comm_set_algorithm(r->c, b->algorithm, COMM_ANY_ORDER);
    if (status == CLT_OK)
        status = allreduce_open(r, &open);
    if (status == CLT_OK)
        status = clt_alloc(&b->values, (size_t)b->last, 1, "the values of bench allreduce");
    if (status == CLT_OK)
        status = run_sizes(b, &json);
    if (status == CLT_OK && r->info->rank == 0)
        status = bench_finish(common, &json);
    allreduce_close(r);
    free(b->values);
    return status;
}

static clt_status parse_op(allreduce_bench *b)
{
    static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather"};
    static const comm_kind kinds[] = {COMM_ALL_REDUCE, COMM_REDUCE_SCATTER, COMM_ALL_GATHER};
    size_t i = 0;
    while (i < 3 && strcmp(b->op, names[i]) != 0)
        i++;
    if (i == 3)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain bench allreduce: --op %s: valid: all_reduce, reduce_scatter, all_gather", b->op);
    b->run.kind = kinds[i];
    if (b->native && b->run.kind != COMM_ALL_REDUCE)
        CLT_FAIL(CLT_EUSAGE, "cltrain bench allreduce: --native measures --op all_reduce only");
    return CLT_OK;
}

clt_status bench_allreduce(cmd_context *context, int argc, char **argv)
{
    bench_common common = {0};
    allreduce_bench b = {
        .factor = 4, .runs = 20, .warmup = 3, .op = "all_reduce", .algorithm = "auto", .dtype = "f32"};
    const char *first = "1K", *last = "64M";
    const args_option options[] = {
        BENCH_OPTIONS(common),
        ARGS_TEXT("-b", "BYTES", first, "smallest size (1K)"),
        ARGS_TEXT("-e", "BYTES", last, "largest size (64M)"),
        ARGS_INT("-f", "N", b.factor, 2, 1e6, "factor from one size to the next (4)"),
        ARGS_INT("--runs", "N", b.runs, 1, 1e6, "measured sums of each size (20)"),
        ARGS_TEXT("--op", "NAME", b.op, "all_reduce (default), reduce_scatter, all_gather"),
        ARGS_TEXT("--algorithm", "NAME", b.algorithm, "auto, nodes, halving, slices, ring, tree, native"),
        ARGS_TEXT("--dtype", "f32|f16|bf16", b.dtype, "type of the data"),
        ARGS_FLAG("--staging", b.run.staging,
                  "read the data from device memory and write the sum back, as for gradients"),
        ARGS_FLAG("--own-memory", b.run.own_memory, "ranks of a host exchange data without shared memory"),
        ARGS_FLAG("--bound", b.bound,
                  "also the memory speed (GB/s) of one core and of the cores of all ranks together, and the "
                  "shortest time that it allows"),
        ARGS_FLAG("--half-between", b.half_between,
                  "16-bit sums travel between hosts in their own type, not as f32"),
        ARGS_FLAG("--native", b.native,
                  "also measure the MPI library's own blocking all-reduce, from and to host memory"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("bench allreduce", "", 0, 0, options, "Measures sums over ranks; start it with mpirun.");
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(parse_size("-b", first, &b.first));
    CLT_TRY(parse_size("-e", last, &b.last));
    if (b.first > b.last)
        CLT_FAIL(CLT_EUSAGE, "cltrain bench allreduce: -b %s is larger than -e %s", first, last);
    if (!clt_dtype_from_name(b.dtype, &b.element) ||
        (b.element != CLT_F32 && b.element != CLT_F16 && b.element != CLT_BF16))
        CLT_FAIL(CLT_EUSAGE, "cltrain bench allreduce: --dtype %s: valid: f32, f16, bf16", b.dtype);
    CLT_TRY(parse_op(&b));
    b.run.type = b.element == CLT_F32 ? COMM_F32 : b.element == CLT_F16 ? COMM_F16 : COMM_BF16;
    return run(&b, &common, context);
}
