/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the loader: runs it with several numbers of threads on memory of the host, without a device. */
#include "engine/train/inspect/loader_rates.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/train/job/job.h"
#include "engine/train/run/feed.h"

/* Places the fields of a slot one after the other; returns its bytes. *sample: bytes of one sample. */
static uint64_t place_fields(const clt_job *job, clt_loader_options *o, uint64_t *sample)
{
    uint64_t bytes = 0;
    *sample = 0;
    for (int f = 0; f < o->n_fields; f++) {
        uint64_t one = clt_source_field_bytes(&job->train_source->fields[o->source_field[f]]);
        o->offset[f] = bytes;
        bytes = clt_align_up(bytes + one * (uint64_t)job->micro_batch, 64);
        *sample += one;
    }
    return bytes;
}

static clt_status take(clt_loader *loader, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        clt_slot *slot;
        CLT_TRY(clt_loader_next(loader, &slot));
        clt_loader_release(loader, slot);
    }
    return CLT_OK;
}

/* Measures whole rounds of slots. The first round does not count, because the threads are starting. */
static clt_status run(const clt_bench_loader_options *b, clt_loader_options *o, clt_loader_rate *rate)
{
    clt_loader *loader = NULL;
    CLT_TRY(clt_loader_create(o, &loader));
    clt_status status = take(loader, o->n_slots);
    double begin = clt_now(), cpu = clt_process_cpu();
    while (status == CLT_OK && rate->seconds < b->seconds) {
        status = take(loader, o->n_slots);
        rate->batches += o->n_slots;
        rate->seconds = clt_now() - begin;
    }
    rate->cpu_seconds = clt_process_cpu() - cpu;
    clt_loader_destroy(loader);
    return status;
}

static clt_status measure(const clt_bench_loader_options *b, const clt_job *job, int workers)
{
    int64_t prefetch = clt_config_int(b->config, "data.prefetch");
    clt_loader_options o = {.source = job->train_source,
                            .micro_batch = job->micro_batch,
                            .global_batch = job->global_batch,
                            .accumulation = job->accumulation,
                            .ranks = 1,
                            .seed = job->seed,
                            .shuffle = clt_config_bool(b->config, "data.shuffle"),
                            .last_step = INT64_MAX / job->accumulation / job->global_batch,
                            .graph = job->model,
                            .workers = workers,
                            .n_slots = prefetch < 2 ? 2 : (int)prefetch};
    clt_loader_rate rate = {.workers = workers, .micro_batch = job->micro_batch};
    CLT_FREED char *room = NULL;
    CLT_FREED void **slots = NULL;
    CLT_TRY(clt_feed_fields(job->model, job->train_source, &o));
    o.slot_bytes = place_fields(job, &o, &rate.sample_bytes);
    CLT_TRY(clt_alloc(&slots, (size_t)o.n_slots, sizeof *slots, "loader slots"));
    CLT_TRY(clt_alloc(&room, (size_t)o.n_slots, o.slot_bytes, "loader slots"));
    for (int i = 0; i < o.n_slots; i++)
        slots[i] = room + (uint64_t)i * o.slot_bytes;
    o.slots = slots;
    CLT_TRY(run(b, &o, &rate));
    b->each(b->context, &rate);
    return CLT_OK;
}

static clt_status measure_all(const clt_bench_loader_options *b, clt_job *job)
{
    ocl_device_desc desc;
    const clt_update_order order = {0};
    int64_t given = clt_config_int(b->config, "data.workers");
    int cores = clt_cpu_count();
    ocl_desc_generic(&desc); /* for data.micro_batch auto: the size that fits a typical GPU */
    CLT_TRY(clt_job_choose_micro_batch(job, &desc, &order));
    b->begin(b->context, job->train_source);
    if (given >= 1)
        return measure(b, job, (int)given);
    for (int workers = 1; workers < cores; workers *= 2)
        CLT_TRY(measure(b, job, workers));
    return measure(b, job, cores);
}

clt_status clt_bench_loader(const clt_bench_loader_options *options)
{
    CLT_SCOPED(clt_job) *job = NULL;
    const clt_job_data data = {0};
    CLT_TRY(clt_job_open(options->config, &data, 1, CLT_JOB_TRAIN, &job));
    return measure_all(options, job);
}
