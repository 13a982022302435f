/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the programs of a config's plans and has them examined (cl/program/examine.h). */
#include "engine/train/inspect/bench_programs.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/json/json.h"
#include "engine/train/job/job.h"
#include "engine/train/job/tuned.h"

typedef struct collection {
    const clt_bench_programs_options *options;
    ocl_examined *programs;
    clt_built *built; /* one for each program */
    size_t count, capacity, built_capacity;
} collection;

static void collection_free(collection *all)
{
    free(all->programs);
    free(all->built);
}
CLT_SCOPED_VALUE(collection, collection_free)

static clt_status add_command(collection *all, const ocl_command *c)
{
    size_t at = 0;
    while (at < all->count && (strcmp(all->programs[at].family, c->family) != 0 ||
                               strcmp(all->programs[at].options, c->options) != 0))
        at++;
    if (at < all->count) {
        all->built[at].commands++;
        return CLT_OK;
    }
    CLT_TRY(clt_grow(&all->programs, &all->capacity, at + 1, sizeof *all->programs, "programs"));
    CLT_TRY(clt_grow(&all->built, &all->built_capacity, at + 1, sizeof *all->built, "programs"));
    all->programs[at] = (ocl_examined){.family = c->family, .options = c->options};
    all->built[at] = (clt_built){.kernel = c->kernel, .label = c->label, .commands = 1};
    all->count++;
    return CLT_OK;
}

static clt_status add_plan(collection *all, const clt_plan *plan)
{
    for (int p = 0; plan != NULL && p < CLT_PHASE_COUNT; p++)
        for (size_t i = 0; i < plan->phase[p].count; i++)
            if (plan->phase[p].commands[i].kind == OCL_CMD_KERNEL)
                CLT_TRY(add_command(all, &plan->phase[p].commands[i]));
    return CLT_OK;
}

static void tell(void *context, size_t index, const ocl_examined *program)
{
    collection *all = context;
    all->built[index].program = program;
    if (all->options->each != NULL)
        all->options->each(all->options->context, &all->built[index]);
}

/* --- the record --- */

static void write_resource(clt_json_writer *w, const char *key, int64_t value)
{
    clt_jw_key(w, key);
    if (value >= 0)
        clt_jw_int(w, value);
    else
        clt_jw_null(w);
}

static void write_program(const clt_built *b, clt_json_writer *w)
{
    const ocl_examined *p = b->program;
    clt_jw_object(w);
    clt_jw_kstring(w, "family", p->family);
    clt_jw_kstring(w, "kernel", b->kernel);
    clt_jw_kstring(w, "options", p->options);
    clt_jw_kstring(w, "first_command", b->label);
    clt_jw_kint(w, "commands", b->commands);
    clt_jw_kbool(w, "built", p->error.status == CLT_OK);
    if (p->error.status != CLT_OK)
        clt_jw_kstring(w, "error", p->error.text);
    clt_jw_kdouble(w, "seconds", p->seconds);
    write_resource(w, "registers", p->resources.registers);
    write_resource(w, "spilled_bytes", p->resources.spilled_bytes);
    write_resource(w, "stack_bytes", p->resources.stack_bytes);
    write_resource(w, "static_local_bytes", p->resources.static_local_bytes);
    clt_jw_kstring(w, "binary", p->binary);
    clt_jw_end_object(w);
}

static clt_status write_record(const collection *all, const ocl_device_desc *d,
                               const clt_bench_programs_sum *sum, clt_str *json)
{
    clt_json_writer w = clt_json_writer_make(json, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "bench", "build");
    clt_jw_kstring(&w, "device", d->name);
    clt_jw_kstring(&w, "driver", d->driver);
    clt_jw_kstring(&w, "version", CLT_VERSION);
    clt_jw_kstring(&w, "extra_options", all->options->extra);
    clt_jw_kint(&w, "count", (int64_t)sum->count);
    clt_jw_kint(&w, "failed", (int64_t)sum->failed);
    clt_jw_kint(&w, "spilled", (int64_t)sum->spilled);
    clt_jw_kdouble(&w, "seconds", sum->seconds);
    clt_jw_kdouble(&w, "sum_seconds", sum->sum);
    clt_jw_kdouble(&w, "largest_seconds", sum->largest);
    clt_jw_karray(&w, "programs");
    for (size_t i = 0; i < all->count; i++)
        write_program(&all->built[i], &w);
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(json, "\n");
    return clt_str_check(json);
}

static void add_up(const collection *all, clt_bench_programs_sum *out)
{
    out->count = all->count;
    for (size_t i = 0; i < all->count; i++) {
        const ocl_examined *p = &all->programs[i];
        out->failed += p->error.status != CLT_OK;
        out->spilled += p->resources.spilled_bytes > 0;
        out->sum += p->seconds;
        out->largest = p->seconds > out->largest ? p->seconds : out->largest;
    }
}

static clt_status examine(collection *all, ocl_device *device, clt_bench_programs_sum *out, clt_str *json)
{
    const clt_bench_programs_options *o = all->options;
    ocl_examine_options how = {
        .extra = o->extra, .threads = o->threads, .folder = o->folder, .each = tell, .context = all};
    if (o->begin != NULL)
        o->begin(o->context, ocl_device_describe(device), all->count);
    double start = clt_now();
    ocl_examine(device, &how, all->programs, all->count);
    out->seconds = clt_now() - start;
    add_up(all, out);
    return write_record(all, ocl_device_describe(device), out, json);
}

/* Makes the plans that `bench step` and `train` would make, with the same tuning records. */
static clt_status plan(const clt_config *config, ocl_device_desc *desc, struct ocl_tuning **tuning,
                       clt_job **out)
{
    const clt_job_data data = {0};
    const clt_update_order order = {0};
    CLT_TRY(clt_job_open(config, &data, 1, CLT_JOB_SYNTHETIC, out));
    CLT_TRY(clt_tuned_describe(config, desc, tuning));
    CLT_TRY(clt_job_choose_micro_batch(*out, desc, &order));
    return clt_job_plan(*out, desc, &order);
}

clt_status clt_bench_programs(const clt_bench_programs_options *options, clt_bench_programs_sum *out,
                              clt_str *json)
{
    CLT_SCOPED(collection) all = {.options = options};
    CLT_SCOPED(ocl_device) *device = NULL;
    CLT_SCOPED(ocl_tuning) *tuning = NULL; /* the job's plans borrow the records of `tuning` */
    CLT_SCOPED(clt_job) *job = NULL;
    const char *spec = options->device_spec != NULL ? options->device_spec
                                                    : clt_config_string(options->config, "device.spec");
    ocl_open_options open = {.spec = spec != NULL && spec[0] != '\0' ? spec : NULL,
                             .caps_mask = options->caps_mask};
    *out = (clt_bench_programs_sum){0};
    CLT_TRY(ocl_device_open(&open, &device));
    ocl_device_desc desc = *ocl_device_describe(device);
    CLT_TRY(plan(options->config, &desc, &tuning, &job));
    CLT_TRY(add_plan(&all, job->train));
    CLT_TRY(add_plan(&all, job->eval));
    return examine(&all, device, out, json);
}
