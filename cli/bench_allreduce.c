/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench allreduce: sums over ranks in the form of nccl-tests: sizes from -b to -e, each times -f, with time,
 * algorithm and bus bandwidth, and the number of wrong elements. With --staging each sum starts and ends in device
 * memory, as gradients do. Knows ways by name only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/memory.h"
#include "cli/bench.h"
#include "comm/comm.h"
#include "engine/base/dtype.h"
#include "engine/base/json.h"
#include "engine/base/thread.h"

typedef struct allreduce_bench {
    int64_t first, last, factor, runs, warmup;
    const char *way, *dtype;
    bool staging;
    comm *c;
    const comm_info *info;
    comm_type type;
    clt_dtype element;
    ocl_device *device; /* with staging */
    ocl_buffer *buffer;
    ocl_pinned *pinned;
    void *data; /* host memory, pinned with staging */
    clt_json_writer writer;
} allreduce_bench;

/* "128M" as bytes; suffixes K, M, G of 1024. */
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

/* Small whole numbers, whose sums are exact in every type for up to 8 ranks of 16-bit types and 2^19 of f32. */
static double value_of(int64_t i, int rank)
{
    return (double)((i + rank) % 31);
}

static void fill(const allreduce_bench *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        clt_dtype_store(b->element, b->data, (size_t)i, value_of(i, b->info->rank));
}

static int64_t count_wrong(const allreduce_bench *b, int64_t count)
{
    int64_t wrong = 0;
    double sum[31] = {0};
    for (int k = 0; k < 31; k++) {
        for (int r = 0; r < b->info->ranks; r++)
            sum[k] += value_of(k, r);
        float rounded[1]; /* room for any of the types */
        clt_dtype_store(b->element, rounded, 0, sum[k]);
        sum[k] = clt_dtype_load(b->element, rounded, 0);
    }
    for (int64_t i = 0; i < count; i++)
        wrong += clt_dtype_load(b->element, b->data, (size_t)i) != sum[i % 31];
    return wrong;
}

static clt_status sum_once(allreduce_bench *b, int64_t count)
{
    uint64_t bytes = (uint64_t)(count * comm_type_bytes(b->type));
    if (b->staging)
        CLT_TRY(ocl_read(b->buffer, 0, b->data, bytes));
    CLT_TRY(comm_all_reduce(b->c, b->data, count, b->type, COMM_SUM));
    return b->staging ? ocl_write(b->buffer, 0, b->data, bytes) : CLT_OK;
}

/* Mean seconds of a sum on the slowest rank, after one whose result was checked. */
static clt_status measure(allreduce_bench *b, int64_t count, double *seconds, int64_t *wrong)
{
    uint64_t bytes = (uint64_t)(count * comm_type_bytes(b->type));
    fill(b, count);
    if (b->staging)
        CLT_TRY(ocl_write(b->buffer, 0, b->data, bytes));
    CLT_TRY(sum_once(b, count));
    if (b->staging)
        CLT_TRY(ocl_read(b->buffer, 0, b->data, bytes));
    *wrong = count_wrong(b, count);
    CLT_TRY(comm_all_reduce(b->c, wrong, 1, COMM_I64, COMM_SUM));
    memset(b->data, 0, bytes); /* sums of sums would not stay finite */
    if (b->staging)
        CLT_TRY(ocl_write(b->buffer, 0, b->data, bytes));
    for (int64_t i = 0; i < b->warmup; i++)
        CLT_TRY(sum_once(b, count));
    CLT_TRY(comm_barrier(b->c));
    double begin = clt_now();
    for (int64_t i = 0; i < b->runs; i++)
        CLT_TRY(sum_once(b, count));
    *seconds = (clt_now() - begin) / (double)b->runs;
    return comm_all_reduce(b->c, seconds, 1, COMM_F64, COMM_MAX);
}

static clt_status run_size(allreduce_bench *b, int64_t bytes)
{
    int64_t count = bytes / comm_type_bytes(b->type), wrong = 0;
    int n = b->info->ranks;
    double seconds = 0;
    if (count == 0)
        return CLT_OK;
    bytes = count * comm_type_bytes(b->type);
    CLT_TRY(measure(b, count, &seconds, &wrong));
    double algbw = (double)bytes / seconds * 1e-9, busbw = algbw * 2 * (n - 1) / n;
    if (b->info->rank == 0) {
        printf("%12lld %12lld %6s %5s %12.1f %8.2f %8.2f %7lld\n", (long long)bytes, (long long)count,
               b->dtype, "sum", seconds * 1e6, algbw, busbw, (long long)wrong);
        (void)fflush(stdout);
    }
    char name[64];
    (void)snprintf(name, sizeof name, "%lld", (long long)bytes);
    clt_jw_object(&b->writer);
    clt_jw_kstring(&b->writer, "name", name);
    clt_jw_kint(&b->writer, "bytes", bytes);
    clt_jw_kdouble(&b->writer, "ms", seconds * 1e3);
    clt_jw_kdouble(&b->writer, "algbw_gbs", algbw);
    clt_jw_kdouble(&b->writer, "busbw_gbs", busbw);
    clt_jw_kint(&b->writer, "wrong", wrong);
    clt_jw_end_object(&b->writer);
    if (wrong)
        CLT_FAIL(CLT_ECHECK, "bench allreduce: %lld elements of %lld bytes are wrong", (long long)wrong,
                 (long long)bytes);
    return CLT_OK;
}

static clt_status run_sizes(allreduce_bench *b, clt_str *json)
{
    b->writer = clt_json_writer_make(json, 2);
    clt_jw_object(&b->writer);
    clt_jw_kstring(&b->writer, "bench", "allreduce");
    clt_jw_kstring(&b->writer, "transport", b->info->transport);
    clt_jw_kstring(&b->writer, "way", comm_chosen_way(b->c));
    clt_jw_kint(&b->writer, "ranks", b->info->ranks);
    clt_jw_kint(&b->writer, "hosts", b->info->nodes);
    clt_jw_key(&b->writer, "rows");
    clt_jw_array(&b->writer);
    if (b->info->rank == 0)
        printf("# %d ranks on %d host%s, %s, way %s%s\n#%11s %12s %6s %5s %12s %8s %8s %7s\n#%11s %12s %6s "
               "%5s %12s "
               "%8s %8s\n",
               b->info->ranks, b->info->nodes, b->info->nodes == 1 ? "" : "s", b->info->description,
               comm_chosen_way(b->c), b->staging ? ", from and to device memory" : "", "size", "count",
               "type", "redop", "time", "algbw", "busbw", "#wrong", "(B)", "(elements)", "", "", "(us)",
               "(GB/s)", "(GB/s)");
    for (int64_t bytes = b->first; bytes <= b->last; bytes *= b->factor)
        CLT_TRY(run_size(b, bytes));
    clt_jw_end_array(&b->writer);
    clt_jw_end_object(&b->writer);
    clt_str_append(json, "\n");
    return CLT_OK;
}

static clt_status get_memory(allreduce_bench *b, const bench_common *common)
{
    if (!b->staging)
        return clt_alloc(&b->data, (size_t)b->last, 1, "the data of bench allreduce");
    ocl_open_options open = {.spec = common->device, .caps_mask = common->caps_mask};
    CLT_TRY(ocl_device_open(&open, &b->device));
    CLT_TRY(ocl_buffer_create(b->device, (uint64_t)b->last, "bench allreduce", &b->buffer));
    CLT_TRY(ocl_pinned_create(b->device, (uint64_t)b->last, "bench allreduce", &b->pinned));
    b->data = ocl_pinned_data(b->pinned);
    return CLT_OK;
}

static clt_status run(allreduce_bench *b, bench_common *common)
{
    clt_str json = {0};
    CLT_TRY(bench_begin(common));
    CLT_TRY(comm_create(&b->c));
    b->info = comm_describe(b->c);
    clt_status status = comm_set_way(b->c, b->way);
    if (status == CLT_OK)
        status = get_memory(b, common);
    if (status == CLT_OK)
        status = run_sizes(b, &json);
    if (status == CLT_OK && b->info->rank == 0)
        status = bench_finish(common, &json);
    if (status != CLT_OK && b->info->ranks > 1 && status != CLT_ECHECK)
        comm_abort(b->c, status);
    if (!b->staging)
        free(b->data);
    ocl_pinned_destroy(b->pinned);
    ocl_buffer_destroy(b->buffer);
    ocl_device_close(b->device);
    comm_destroy(b->c);
    clt_str_free(&json);
    return status;
}

clt_status bench_allreduce(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    allreduce_bench b = {.factor = 4, .runs = 20, .warmup = 3, .way = "auto", .dtype = "f32"};
    const char *first = "1K", *last = "64M";
    const args_option options[] = {
        BENCH_OPTIONS(common),
        ARGS_TEXT("-b", "BYTES", first, "smallest size (1K)"),
        ARGS_TEXT("-e", "BYTES", last, "largest size (64M)"),
        ARGS_INT("-f", "N", b.factor, 2, 1e6, "factor from one size to the next (4)"),
        ARGS_INT("--runs", "N", b.runs, 1, 1e6, "measured sums of each size (20)"),
        ARGS_TEXT("--way", "NAME", b.way, "auto, nodes, halving, slices, ring, tree, native"),
        ARGS_TEXT("--dtype", "f32|f16|bf16", b.dtype, "type on the way"),
        ARGS_FLAG("--staging", b.staging, "from device memory and back to it, as gradients go"),
        ARGS_END};
    const args_usage usage = {.command = "bench allreduce",
                              .operands = "",
                              .summary = "Measures sums over ranks; start it with mpirun.",
                              .options = options};
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
    b.type = b.element == CLT_F32 ? COMM_F32 : b.element == CLT_F16 ? COMM_F16 : COMM_BF16;
    return run(&b, &common);
}
