/* SPDX-License-Identifier: Apache-2.0
 *
 * The start-up table's rows. */
#include "engine/report/startup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/train/tuned.h"

typedef struct table {
    clt_table_row *rows;
    int count;
} table;

static void add(table *t, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(table *t, const char *label, const char *format, ...)
{
    clt_table_row *row = &t->rows[t->count++];
    va_list args;
    snprintf(row->label, sizeof row->label, "%s", label);
    va_start(args, format);
    vsnprintf(row->value, sizeof row->value, format, args);
    va_end(args);
}

static void add_device(table *t, const ocl_device_desc *d)
{
    char caps[256], masked[256] = "";
    ocl_caps_text(d->caps, caps, sizeof caps);
    if (d->masked_caps)
        ocl_caps_text(d->masked_caps, masked, sizeof masked);
    add(t, "device", "%s (%s), %u compute units, %s%s%s", d->name, d->spec, d->compute_units,
        caps[0] ? caps : "no optional capability", masked[0] ? "; masked: " : "", masked);
}

/* What precision.mode auto has taken, and why; "" when the config says it itself. */
static const char *why_storage(const clt_job *job)
{
    if (strcmp(clt_config_string(job->config, "precision.mode"), "auto") != 0)
        return "";
    return job->storage == CLT_F32 ? " (auto: the device has no matrix units for 16 bits)"
                                   : " (auto: the device has matrix units for it)";
}

static void add_precision(table *t, const clt_job *job)
{
    const clt_loss_scaling *scaling = &job->update.scaling;
    char scale[64] = "", wire[48] = "";
    if (scaling->on)
        snprintf(scale, sizeof scale, ", %s loss scale %g", scaling->dynamic ? "dynamic" : "static",
                 (double)job->loss_scale);
    if (job->ranks > 1 && job->train->options.wire != CLT_F32)
        snprintf(wire, sizeof wire, ", gradients between ranks %s", clt_dtype_name(job->train->options.wire));
    bool tf32 = strcmp(clt_config_string(job->config, "precision.matmul"), "tf32") == 0;
    add(t, "precision", "%s storage%s, f32 arithmetic%s%s%s", clt_dtype_name(job->storage), why_storage(job),
        !tf32                      ? ""
        : job->train->options.tf32 ? ", tf32 products"
                                   : ", ieee products (the device has no tf32)",
        scale, wire);
}

/* What the device could do for this run and was not asked for. */
static void add_hint(table *t, const clt_job *job, const ocl_device_desc *d)
{
    const char *type = d->caps & OCL_CAP_MMA_BF16 ? "bf16" : d->caps & OCL_CAPS_F16_UNITS ? "f16" : NULL;
    bool tf32 = (d->caps & OCL_CAP_MMA_TF32) != 0 && !job->train->options.tf32;
    if (job->storage != CLT_F32 || (type == NULL && !tf32))
        return;
    if (type == NULL)
        add(t, "hint", "matrix units for tf32 are idle: precision.matmul=tf32 is several times as fast");
    else
        add(t, "hint", "matrix units are idle: precision.mode=auto takes %s, many times as fast as f32%s",
            type, tf32 ? "; precision.matmul=tf32 keeps f32 storage and is several times as fast" : "");
}

/* Where the parameters come from, when they are not drawn at random. */
static void add_weights(table *t, const clt_run *run)
{
    const clt_weights_taken *w = &run->taken;
    char hash[CLT_HASH64_TEXT];
    if (w->file[0] && !run->resumed_from[0])
        add(t, "weights", "%d tensors from %.180s (hash %s)%s%.150s", w->tensors, w->file,
            clt_hash64_text(w->hash, hash), w->notes[0] ? "; " : "", w->notes);
}

int clt_startup_rows(const clt_run *run, const char *run_dir, clt_table_row rows[CLT_STARTUP_ROWS])
{
    const clt_job *job = run->job;
    const clt_config *c = run->options->config;
    const ocl_device_desc *d = ocl_device_describe(run->device);
    clt_memory_report m = clt_plan_memory(job->train, job->eval);
    table t = {rows, 0};
    char caps[256];
    const double mib = 1048576.0;
    add_device(&t, d);
    add(&t, "driver", "%s, %s", d->platform, d->driver);
    add_precision(&t, job);
    add_hint(&t, job, d);
    add(&t, "model", "%s, %lld parameters in %zu tensors", clt_config_string(c, "model.type"),
        (long long)clt_graph_param_elements(job->train->graph), job->train->graph->n_params);
    add_weights(&t, run);
    add(&t, "batch", "micro %lld x accumulation %d x ranks %d = %lld samples", (long long)job->micro_batch,
        job->accumulation, job->ranks, (long long)job->global_batch);
    add(&t, "training data", "%.180s", job->train_source->description ? job->train_source->description : "");
    if (job->eval_source)
        add(&t, "evaluation data", "%.180s",
            job->eval_source->description ? job->eval_source->description : "none");
    add(&t, "optimizer", "%s, learning rate %g, decay %g, clip %g", clt_config_string(c, "optimizer.type"),
        job->schedule.peak, job->update.weight_decay, (double)job->update.clip);
    add(&t, "schedule", "%s over %lld steps, warm-up %lld", clt_config_string(c, "schedule.type"),
        (long long)job->steps, (long long)job->schedule.warmup);
    add(&t, "memory",
        "%.1f MiB: parameters %.1f, gradients %.1f, optimizer %.1f, activations %.1f, inputs %.1f",
        (double)m.total / mib, (double)m.params / mib, (double)m.gradients / mib, (double)m.optimizer / mib,
        (double)m.activations / mib, (double)(m.inputs + m.staging) / mib);
    ocl_counters counters = ocl_device_counters(run->device);
    add(&t, "plan",
        "%zu commands per step, built in %.1f s (%llu programs, %llu of them from the cache, %llu compiled "
        "in child processes)",
        clt_plan_commands(job->train), run->build_seconds, (unsigned long long)counters.programs_built,
        (unsigned long long)counters.programs_loaded, (unsigned long long)counters.programs_in_children);
    add(&t, "tuning", "%s", clt_tuned_text(run->tuned, caps, sizeof caps));
    add(&t, "determinism", "D1: bitwise repeatable on this device, driver, binary and rank count; seed %llu",
        (unsigned long long)job->seed);
    if (run->ranks.ranks > 1)
        add(&t, "ranks", "%d over %s, this one %d on %s", run->ranks.ranks,
            run->ranks.description ? run->ranks.description : "?", run->ranks.rank, run->ranks.host);
    if (run_dir)
        add(&t, "run folder", "%.180s", run_dir);
    return t.count;
}
