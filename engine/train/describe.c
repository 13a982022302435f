/* SPDX-License-Identifier: Apache-2.0
 *
 * `plan` and `estimate`: what would run and what it would need, without a device. */
#include <inttypes.h>

#include "engine/train/job.h"
#include "engine/train/trainer.h"

static clt_status describe_job(const clt_config *config, const ocl_device_desc *desc, clt_job **job)
{
    ocl_device_desc generic;
    ocl_desc_generic(&generic);
    return clt_job_create(config, desc ? desc : &generic, 1, CLT_JOB_TRAIN, job);
}

static void json_device(const ocl_device_desc *d, clt_json_writer *w)
{
    clt_jw_key(w, "device");
    clt_jw_object(w);
    clt_jw_kstring(w, "name", d->name);
    clt_jw_kint(w, "usable_bytes", (int64_t)d->usable_bytes);
    clt_jw_kint(w, "max_alloc_bytes", (int64_t)d->max_alloc_bytes);
    clt_jw_end_object(w);
}

clt_status clt_describe_plan(const clt_config *config, const ocl_device_desc *desc, bool json, clt_str *out)
{
    clt_job *job;
    CLT_TRY(describe_job(config, desc, &job));
    clt_status status;
    if (json) {
        clt_json_writer w = clt_json_writer_make(out, 2);
        clt_jw_object(&w);
        json_device(&job->desc, &w);
        clt_jw_kint(&w, "micro_batch", job->micro_batch);
        clt_jw_kint(&w, "global_batch", job->global_batch);
        clt_jw_kint(&w, "accumulation", job->accumulation);
        clt_jw_kint(&w, "steps", job->steps);
        clt_jw_key(&w, "train");
        status = clt_plan_print_json(job->train, &w);
        if (status == CLT_OK && job->eval) {
            clt_jw_key(&w, "eval");
            status = clt_plan_print_json(job->eval, &w);
        }
        clt_jw_end_object(&w);
        clt_str_append(out, "\n");
    } else {
        clt_str_printf(out,
                       "device: %s\nbatch: micro %" PRId64 " x accumulation %d = %" PRId64
                       " samples, %" PRId64 " steps\n\n",
                       job->desc.name, job->micro_batch, job->accumulation, job->global_batch, job->steps);
        clt_str_append(out, "training plan\n");
        status = clt_plan_print(job->train, out);
        if (status == CLT_OK && job->eval) {
            clt_str_append(out, "\nevaluation plan\n");
            status = clt_plan_print(job->eval, out);
        }
    }
    clt_job_destroy(job);
    return status == CLT_OK ? clt_str_check(out) : status;
}

static void estimate_text(const clt_job *job, const clt_memory_report *r, int64_t largest, clt_str *out)
{
    const double mib = 1048576.0;
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {{"parameters", r->params}, {"gradients", r->gradients}, {"optimizer", r->optimizer},
                {"run state", r->state},   {"inputs", r->inputs},       {"activations", r->activations},
                {"staging", r->staging},   {"total", r->total}};
    clt_str_printf(out, "device memory for micro-batch %" PRId64 " on %s\n", job->micro_batch,
                   job->desc.name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        clt_str_printf(out, "  %-12s %12.2f MiB\n", rows[i].name, (double)rows[i].bytes / mib);
    clt_str_printf(out, "device can give %.1f MiB: this run %s\n", (double)job->desc.usable_bytes / mib,
                   r->total <= job->desc.usable_bytes ? "fits" : "does not fit");
    if (largest > 0)
        clt_str_printf(out, "largest data.micro_batch that fits: %" PRId64 "\n", largest);
    else
        clt_str_append(out, "no data.micro_batch fits\n");
}

static void estimate_json(const clt_job *job, const clt_memory_report *r, int64_t largest, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    json_device(&job->desc, &w);
    clt_jw_kint(&w, "micro_batch", job->micro_batch);
    clt_jw_kint(&w, "parameters", clt_graph_param_elements(job->train->graph));
    clt_jw_key(&w, "bytes");
    clt_jw_object(&w);
    clt_jw_kint(&w, "parameters", (int64_t)r->params);
    clt_jw_kint(&w, "gradients", (int64_t)r->gradients);
    clt_jw_kint(&w, "optimizer", (int64_t)r->optimizer);
    clt_jw_kint(&w, "state", (int64_t)r->state);
    clt_jw_kint(&w, "inputs", (int64_t)r->inputs);
    clt_jw_kint(&w, "activations", (int64_t)r->activations);
    clt_jw_kint(&w, "staging", (int64_t)r->staging);
    clt_jw_kint(&w, "total", (int64_t)r->total);
    clt_jw_end_object(&w);
    clt_jw_kbool(&w, "fits", r->total <= job->desc.usable_bytes);
    clt_jw_kint(&w, "largest_micro_batch", largest);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
}

clt_status clt_describe_estimate(const clt_config *config, const ocl_device_desc *desc, bool json,
                                 clt_str *out)
{
    clt_job *job;
    int64_t largest = 0;
    CLT_TRY(describe_job(config, desc, &job));
    clt_memory_report r = clt_plan_memory(job->train, job->eval);
    clt_status status = clt_job_largest_micro_batch(job, &largest);
    if (status == CLT_OK && json)
        estimate_json(job, &r, largest, out);
    else if (status == CLT_OK)
        estimate_text(job, &r, largest, out);
    clt_job_destroy(job);
    return status == CLT_OK ? clt_str_check(out) : status;
}
