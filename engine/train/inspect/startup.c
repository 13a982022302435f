/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the rows of the start-up table. */
#include "engine/train/inspect/startup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/text.h"
#include "engine/report/read/run_record.h"
#include "engine/report/write/lines.h"
#include "engine/train/job/tuned.h"

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

/* Marks the row added last as shown in the log only. */
static void technical(table *t)
{
    t->rows[t->count - 1].technical = true;
}

static void add_device(table *t, const ocl_device_desc *d)
{
    char caps[256], masked[256] = "";
    ocl_caps_text(d->caps, caps, sizeof caps);
    ocl_masked_text(d, masked, sizeof masked);
    add(t, "device", "%s (%s), %u compute unit%s%s%s", d->name, d->spec, d->compute_units,
        CLT_PLURAL(d->compute_units), masked[0] ? "; masked: " : "", masked);
    add(t, "capabilities", "%s", caps[0] ? caps : "no optional capability");
    technical(t);
    add(t, "driver", "%s, %s", d->platform, d->driver);
    technical(t);
}

/* Says which storage type precision.mode auto has chosen, and why; "" if the config names the type. */
static const char *why_storage(const clt_job *job)
{
    if (clt_config_choice(job->config, "precision.mode") != CLT_PRECISION_AUTO)
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
    bool tf32 = clt_config_choice(job->config, "precision.matmul") == CLT_MATMUL_TF32;
    add(t, "precision", "%s storage%s, f32 arithmetic%s%s%s", clt_dtype_name(job->storage), why_storage(job),
        !tf32                      ? ""
        : job->train->options.tf32 ? ", tf32 products"
                                   : ", ieee products (the device has no tf32)",
        scale, wire);
}

/* Adds a hint about a faster precision that the device has and the config does not use. */
static void add_hint(table *t, const clt_job *job, const ocl_device_desc *d)
{
    const char *type = ocl_has_unit(d, CLT_BF16) ? "bf16" : ocl_has_unit(d, CLT_F16) ? "f16" : NULL;
    bool tf32 = ocl_has_unit(d, CLT_F32) && !job->train->options.tf32;
    if (job->storage != CLT_F32 || (type == NULL && !tf32))
        return;
    if (type == NULL)
        add(t, "hint", "matrix units for tf32 are not used: precision.matmul=tf32 is several times as fast");
    else
        add(t, "hint",
            "matrix units are not used: precision.mode=auto chooses %s, many times as fast as f32%s", type,
            tf32 ? "; precision.matmul=tf32 keeps f32 storage and is several times as fast" : "");
}

/* Says which file the parameters come from, unless they are random. */
static void add_weights(table *t, const clt_run *run)
{
    const clt_weights_taken *w = &run->taken;
    char hash[CLT_HASH64_TEXT];
    if (w->file[0] && !run->from.path[0])
        add(t, "weights", "%d tensor%s from %.180s (hash %s)%s%.150s", w->tensors, CLT_PLURAL(w->tensors),
            w->file, clt_hash64_text(w->hash, hash), w->notes[0] ? "; " : "", w->notes);
}

/* Says which parameters are not read from a file: the ones that --init-skip names, and new adapters. */
static void add_kept(table *t, const clt_weights_taken *w)
{
    int names = w->kept_names[0] ? 1 : 0;
    char more[48] = "";
    for (const char *c = w->kept_names; *c; c++)
        names += *c == ',';
    if (names < w->kept)
        snprintf(more, sizeof more, " and %d more", w->kept - names);
    if (w->kept > 0)
        add(t, "new parameters", "%s%s: not from --init's file, as --init-skip says", w->kept_names, more);
    if (w->adapters > 0)
        add(t, "adapters", "%d new tensor%s; every B is zero, so the model starts as if it had no adapters",
            w->adapters, CLT_PLURAL(w->adapters));
}

/* Floating-point operations of a run below which tuning is not suggested: it takes about a minute, more than
 * it would save. */
#define TUNE_FLOPS 1e14

static void add_tuning(table *t, const clt_run *run)
{
    char text[256];
    int unmeasured = clt_tuned_unmeasured(run->tuned);
    double flops = clt_plan_flops(run->job->train) * (double)(run->job->steps - run->first_step);
    if (unmeasured > 0 && flops >= TUNE_FLOPS)
        add(t, "hint",
            "'cltrain tune CONFIG' would measure which kernels are fastest on this device: %d of %d "
            "problems have never been measured here",
            unmeasured, run->tuned->problems);
    add(t, "tuning", "%s", clt_tuned_text(run->tuned, text, sizeof text));
    technical(t);
}

const char *clt_startup_steps(const clt_job *job, char *text, size_t size)
{
    clt_job_amount reads = clt_job_reads(job);
    char tokens[64] = "", passes[64] = "";
    if (reads.step_tokens > 0)
        snprintf(tokens, sizeof tokens, " of %lld token%s, %.3g tokens in all", (long long)reads.step_tokens,
                 CLT_PLURAL(reads.step_tokens), reads.tokens);
    if (reads.passes > 0)
        snprintf(passes, sizeof passes, ", %.3g times through the training data", reads.passes);
    snprintf(text, size, "%lld%s%s", (long long)job->steps, tokens, passes);
    return text;
}

/* With more passes through a text than this, the table warns that the model will memorise it. */
#define MOST_PASSES 100

static void add_training(table *t, const clt_job *job)
{
    char parts[64] = "", ranks[48] = "", found[160] = "", steps[192];
    clt_job_amount reads = clt_job_reads(job);
    int64_t first;
    int32_t least = clt_job_share(job, job->ranks - 1, &first);
    if (least < job->accumulation)
        snprintf(parts, sizeof parts, ", %d or %d times %lld", job->accumulation, least,
                 (long long)job->micro_batch);
    else if (job->accumulation > 1)
        snprintf(parts, sizeof parts, ", %d times %lld", job->accumulation, (long long)job->micro_batch);
    else if (job->ranks > 1)
        snprintf(parts, sizeof parts, ", %lld", (long long)job->micro_batch);
    if (job->ranks > 1)
        snprintf(ranks, sizeof ranks, " on each of %d ranks", job->ranks);
    else if (job->accumulation > 1)
        snprintf(ranks, sizeof ranks, " one after the other");
    if (job->auto_micro)
        snprintf(
            found, sizeof found, "; micro-batches of %lld were found to fit%s", (long long)job->micro_batch,
            job->given_global > 0 ? "" : ", and data.global_batch is not given, so it follows from them");
    add(t, "batch", "%lld sample%s a step%s%s%s", (long long)job->global_batch, CLT_PLURAL(job->global_batch),
        parts, ranks, found);
    add(t, "steps", "%s", clt_startup_steps(job, steps, sizeof steps));
    if (reads.step_tokens > 0 && reads.passes > MOST_PASSES)
        add(t, "hint",
            "with this many passes a model learns the text by heart: take more text, or fewer train.steps");
}

/* "0.1", or with optimizer.base_batch "0.1 x 1024/256 = 0.4" */
static const char *rate_text(const clt_job *job, char *text, size_t size)
{
    int64_t base = clt_config_int(job->config, "optimizer.base_batch");
    if (base > 0)
        (void)snprintf(text, size, "%g x %lld/%lld = %g",
                       clt_config_float(job->config, "optimizer.learning_rate"), (long long)job->global_batch,
                       (long long)base, job->schedule.peak);
    else
        (void)snprintf(text, size, "%g", job->schedule.peak);
    return text;
}

const char *clt_startup_optimizer(const clt_job *job, char *text, size_t size)
{
    const clt_config *c = job->config;
    char decay[48] = "", clip[64] = "", warmup[48] = "", rate[128];
    if (job->update.weight_decay > 0)
        snprintf(decay, sizeof decay, ", weight decay %g", job->update.weight_decay);
    if (job->update.clip > 0)
        snprintf(clip, sizeof clip, ", gradients clipped to norm %g", (double)job->update.clip);
    if (job->schedule.warmup > 0)
        snprintf(warmup, sizeof warmup, ", %lld step%s of warm-up", (long long)job->schedule.warmup,
                 CLT_PLURAL(job->schedule.warmup));
    snprintf(text, size, "%s, learning rate %s (%s%s)%s%s", clt_config_string(c, "optimizer.type"),
             rate_text(job, rate, sizeof rate), clt_config_string(c, "schedule.type"), warmup, decay, clip);
    return text;
}

static void add_optimizer(table *t, const clt_job *job)
{
    char text[sizeof t->rows->value];
    add(t, "optimizer", "%s", clt_startup_optimizer(job, text, sizeof text));
}

const char *clt_startup_memory(const clt_memory_report *m, char text[CLT_MEMORY_TEXT])
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", m->params},       {"gradients", m->gradients}, {"optimizer", m->optimizer},
                 {"activations", m->activations}, {"inputs", m->inputs},       {"staging", m->staging},
                 {"run state", m->state}};
    char bytes[32];
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && used < CLT_MEMORY_TEXT; i++)
        used += (size_t)snprintf(text + used, CLT_MEMORY_TEXT - used, "%s%s %s", i ? ", " : "", parts[i].name,
                                 clt_bytes_text(parts[i].bytes, bytes, sizeof bytes));
    return text;
}

static void add_memory(table *t, const clt_job *job)
{
    clt_memory_report m = clt_plan_memory(job->train, job->eval);
    char all[32], parts[CLT_MEMORY_TEXT];
    add(t, "memory", "%s on the device: %s", clt_bytes_text(m.total, all, sizeof all),
        clt_startup_memory(&m, parts));
}

/* "1,234,567" */
static const char *grouped(long long value, char *text, size_t size)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%lld", value);
    size_t at = 0;
    for (int i = 0; i < n && at + 2 < size; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static void add_folder(table *t, const clt_run *run, const char *run_dir)
{
    double minutes = clt_config_float(run->options->config, "checkpoint.minutes");
    int64_t every = clt_config_int(run->options->config, "checkpoint.every");
    char when[96] = "";
    if (every == 1)
        snprintf(when, sizeof when, "every step");
    else if (every > 0)
        snprintf(when, sizeof when, "every %lld steps", (long long)every);
    if (minutes > 0)
        snprintf(when + strlen(when), sizeof when - strlen(when), "%severy %g minutes",
                 every > 0 ? " and " : "", minutes);
    add(t, "run folder", "%.180s, saved %s%s", run_dir, when,
        clt_config_bool(run->options->config, "checkpoint.final")
            ? (when[0] ? " and at the end" : "at the end")
        : when[0] ? ""
                  : "only when it is stopped");
}

/* Adds the rows about the job. run: NULL if there is none yet. taken: NULL if no weights come from a
 * file. */
static void add_job(table *t, const clt_job *job, const ocl_device_desc *d, const clt_run *run,
                    const clt_weights_taken *taken)
{
    const clt_source *train = job->train_source, *eval = job->eval_source;
    char count[48], frozen[48], part[80] = "";
    int64_t n_frozen = clt_graph_frozen_elements(job->train->graph);
    if (n_frozen > 0)
        snprintf(part, sizeof part, ", %s of them frozen",
                 grouped((long long)n_frozen, frozen, sizeof frozen));
    memset(t->rows, 0, CLT_STARTUP_ROWS * sizeof *t->rows);
    add_device(t, d);
    add(t, "model", "%s, %s parameters%s", clt_config_string(job->config, "model.type"),
        grouped((long long)clt_graph_param_elements(job->train->graph), count, sizeof count), part);
    if (run)
        add_weights(t, run);
    if (taken)
        add_kept(t, taken);
    add_precision(t, job);
    add_hint(t, job, d);
    add(t, "training data", "%.380s", train->description ? train->description : "");
    if (eval)
        add(t, "evaluation data", "%.380s", eval->description ? eval->description : "none");
    add_training(t, job);
    add_optimizer(t, job);
    add_memory(t, job);
}

/* Adds the step time of the run to be resumed, if it ran on this device with the same number of ranks. */
static void add_step_time(table *t, const clt_job *job, const clt_run_record *record)
{
    const clt_json_doc *start = clt_run_start(record);
    CLT_SCOPED(clt_str) device = {0};
    char ms[32], rest[32];
    if (!start || record->session_count == 0 || clt_run_number(start, "ranks") != (double)job->ranks)
        return;
    const clt_run_session *s = &record->sessions[record->session_count - 1];
    int64_t steps = s->last_step - s->first_step + 1;
    clt_run_member(start, "device", &device);
    if (clt_str_check(&device) == CLT_OK && device.text && strcmp(device.text, job->desc.name) == 0 &&
        s->first_step > 0 && steps > 0 && s->step_seconds > 0) {
        double seconds = s->step_seconds / (double)steps;
        snprintf(ms, sizeof ms, "%.3g", seconds * 1e3);
        add(t, "time per step",
            "%s ms on this device, when the run made steps %lld to %lld; all %lld take %s", ms,
            (long long)s->first_step, (long long)s->last_step, (long long)job->steps,
            clt_duration_text(seconds * (double)job->steps, rest, sizeof rest));
    }
}

int clt_startup_job_rows(const clt_job *job, const char *resumed, const clt_weights_taken *taken,
                         clt_table_row rows[CLT_STARTUP_ROWS])
{
    table t = {rows, 0};
    clt_run_record *record = NULL;
    add_job(&t, job, &job->desc, NULL, taken);
    if (resumed && strcmp(resumed, "auto") != 0 && clt_run_record_load(resumed, &record) == CLT_OK)
        add_step_time(&t, job, record);
    clt_error_clear(); /* skip the row */
    clt_run_record_free(record);
    return t.count;
}

int clt_startup_rows(const clt_run *run, const char *run_dir, clt_table_row rows[CLT_STARTUP_ROWS])
{
    const clt_job *job = run->job;
    ocl_counters counters = ocl_device_counters(run->device);
    table t = {rows, 0};
    add_job(&t, job, ocl_device_describe(run->device), run, run->from.path[0] ? NULL : &run->taken);
    add(&t, "plan",
        "%zu command%s per step, built in %.1f s (%llu program%s, %llu of them from the cache, %llu compiled "
        "in child processes)",
        clt_plan_commands(job->train), CLT_PLURAL(clt_plan_commands(job->train)), run->build_seconds,
        (unsigned long long)counters.programs_built, CLT_PLURAL(counters.programs_built),
        (unsigned long long)counters.programs_loaded, (unsigned long long)counters.programs_in_children);
    technical(&t);
    add_tuning(&t, run);
    add(&t, "determinism", "%s; seed %llu",
        job->train->options.tree
            ? "D3: bitwise repeatable on this device, driver and binary, with 1, 2, 4 ... ranks"
            : "D1: bitwise repeatable on this device, driver, binary and rank count",
        (unsigned long long)job->seed);
    technical(&t);
    if (run->ranks.ranks > 1)
        add(&t, "ranks", "%d over %s, sums by algorithm %s, this one %d on %s", run->ranks.ranks,
            run->ranks.description ? run->ranks.description : "?", comm_chosen_algorithm(run->options->comm),
            run->ranks.rank, run->ranks.host);
    if (run_dir)
        add_folder(&t, run, run_dir);
    return t.count;
}
