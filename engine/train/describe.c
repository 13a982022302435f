/* SPDX-License-Identifier: Apache-2.0
 *
 * `plan` and `estimate`: what would run and what it would need, without a device. */
#include <inttypes.h>

#include "engine/train/job.h"
#include "engine/train/trainer.h"
#include "engine/train/tuned.h"

static void text_data_missing(const clt_job *job, clt_str *out)
{
    if (job->data_missing[0])
        clt_str_printf(out, "the data was not read, its shapes follow from the config: %s\n",
                       job->data_missing);
}

/* *set: tuning records that the job's plans borrow. */
static clt_status describe_job(const clt_config *config, const ocl_device_desc *desc, clt_job **job,
                               ocl_tuning **set)
{
    ocl_device_desc own;
    *set = NULL;
    if (desc)
        own = *desc;
    else
        ocl_desc_generic(&own);
    CLT_TRY(clt_tuned_describe(config, &own, set));
    clt_status status = clt_job_create(config, &own, 1, CLT_JOB_DESCRIBE, job);
    if (status != CLT_OK)
        ocl_tuning_destroy(*set);
    return status;
}

static void json_device(const clt_job *job, clt_json_writer *w)
{
    const ocl_device_desc *d = &job->desc;
    if (job->data_missing[0])
        clt_jw_kstring(w, "data_missing", job->data_missing);
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
    ocl_tuning *set;
    CLT_TRY(describe_job(config, desc, &job, &set));
    clt_status status;
    if (json) {
        clt_json_writer w = clt_json_writer_make(out, 2);
        clt_jw_object(&w);
        json_device(job, &w);
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
        text_data_missing(job, out);
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
    ocl_tuning_destroy(set);
    return status == CLT_OK ? clt_str_check(out) : status;
}

/* What an estimate says besides the memory of the plans as configured. */
typedef struct estimate {
    const clt_job *job;
    clt_memory_report memory;
    int64_t largest;         /* micro-batch */
    uint64_t activations[3]; /* by clt_recompute */
} estimate;

static const char *const tiers[] = {"none", "gelu", "block"};

static clt_status make_estimate(const clt_job *job, estimate *e)
{
    *e = (estimate){.job = job, .memory = clt_plan_memory(job->train, job->eval)};
    for (int t = CLT_RECOMPUTE_NONE; t <= CLT_RECOMPUTE_BLOCK; t++)
        CLT_TRY(clt_job_activations(job, (clt_recompute)t, &e->activations[t]));
    return clt_job_largest_micro_batch(job, &e->largest);
}

static void estimate_text(const estimate *e, clt_str *out)
{
    const double mib = 1048576.0;
    const clt_job *job = e->job;
    const clt_memory_report *r = &e->memory;
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {{"parameters", r->params}, {"gradients", r->gradients}, {"optimizer", r->optimizer},
                {"run state", r->state},   {"inputs", r->inputs},       {"activations", r->activations},
                {"staging", r->staging},   {"total", r->total}};
    text_data_missing(job, out);
    clt_str_printf(out, "device memory for micro-batch %" PRId64 " on %s\n", job->micro_batch,
                   job->desc.name);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        clt_str_printf(out, "  %-12s %12.2f MiB\n", rows[i].name, (double)rows[i].bytes / mib);
    clt_str_printf(out, "device can give %.1f MiB: this run %s\n", (double)job->desc.usable_bytes / mib,
                   r->total <= job->desc.usable_bytes ? "fits" : "does not fit");
    clt_str_append(out, "activations by train.recompute:");
    for (int t = CLT_RECOMPUTE_NONE; t <= CLT_RECOMPUTE_BLOCK; t++)
        clt_str_printf(out, "%s %s %.2f MiB", t ? "," : "", tiers[t], (double)e->activations[t] / mib);
    clt_str_append(out, "\n");
    if (e->largest > 0)
        clt_str_printf(out, "largest data.micro_batch that fits: %" PRId64 "\n", e->largest);
    else
        clt_str_append(out, "no data.micro_batch fits\n");
}

static void estimate_json(const estimate *e, clt_str *out)
{
    const clt_job *job = e->job;
    const clt_memory_report *r = &e->memory;
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    json_device(job, &w);
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
    clt_jw_kint(&w, "largest_micro_batch", e->largest);
    clt_jw_key(&w, "activations_by_recompute");
    clt_jw_object(&w);
    for (int t = CLT_RECOMPUTE_NONE; t <= CLT_RECOMPUTE_BLOCK; t++)
        clt_jw_kint(&w, tiers[t], (int64_t)e->activations[t]);
    clt_jw_end_object(&w);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
}

clt_status clt_describe_estimate(const clt_config *config, const ocl_device_desc *desc, bool json,
                                 clt_str *out)
{
    clt_job *job;
    ocl_tuning *set;
    estimate e;
    CLT_TRY(describe_job(config, desc, &job, &set));
    clt_status status = make_estimate(job, &e);
    if (status == CLT_OK && json)
        estimate_json(&e, out);
    else if (status == CLT_OK)
        estimate_text(&e, out);
    clt_job_destroy(job);
    ocl_tuning_destroy(set);
    return status == CLT_OK ? clt_str_check(out) : status;
}
