/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of the checker: options, device, filters, names, reports. The other files of this room define the
 * checks. */
#include "engine/verify/verify.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/verify/verify_internal.h"

const char *clt_verify_state_name(clt_verify_state state)
{
    static const char *const names[] = {"PASS", "FAIL", "SKIP", "UNIMPL", "MISTRUST"};
    return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "?";
}

static const char *mode_name(unsigned mode)
{
    switch (mode) {
    case CLT_VERIFY_CORRECT:
        return "correct";
    case CLT_VERIFY_GRAD:
        return "grad";
    case CLT_VERIFY_BITWISE:
        return "bitwise";
    default:
        return "perf";
    }
}

/* --- filters --- */

static bool glob(const char *pattern, const char *name)
{
    char escaped[512];
    size_t used = 0;
    for (; *pattern && used + 3 < sizeof escaped; pattern++) {
        if (*pattern == '[' || *pattern == '\\')
            escaped[used++] = '\\';
        escaped[used++] = *pattern;
    }
    escaped[used] = '\0';
    return *pattern == '\0' && fnmatch(escaped, name, 0) == 0;
}

static bool match_one(const char *pattern, const char *name)
{
    char part[256];
    if (glob(pattern, name))
        return true;
    snprintf(part, sizeof part, "%s", name);
    static const char ends[] = {'/', '[', '.'};
    for (size_t i = 0; i < sizeof ends; i++) {
        char *end = ends[i] == '.' ? strchr(part, '.') : strrchr(part, ends[i]);
        if (end)
            *end = '\0';
        if (glob(pattern, part))
            return true;
    }
    return false;
}

bool clt_verify_match(const char *patterns, const char *name)
{
    if (patterns == NULL)
        return true;
    for (const char *at = patterns; *at != '\0';) {
        char pattern[256];
        size_t n = strcspn(at, ",");
        if (n < sizeof pattern) {
            snprintf(pattern, sizeof pattern, "%.*s", (int)n, at);
            if (match_one(pattern, name))
                return true;
        }
        at += n + (at[n] == ',');
    }
    return false;
}

static void report(clt_verify_session *session, const clt_verify_result *result)
{
    if (session->options->result)
        session->options->result(session->options->context, result);
}

static bool selects(clt_verify_session *session, const clt_verify_item *item, clt_verify_outcome *outcome)
{
    const clt_verify_options *o = session->options;
    bool list = (o->modes & CLT_VERIFY_LIST) != 0;
    if (session->ended || !(session->modes & item->mode) || (o->small && !item->small))
        return false;
    snprintf(session->name, sizeof session->name, item->variant ? "%s.%s[%s]/%s" : "%s.%s%s/%s",
             item->subject, item->name, item->variant ? item->variant : "", mode_name(item->mode));
    if (!clt_verify_match(o->pattern, session->name))
        return false;
    uint64_t index = session->matched++;
    if (o->shards > 1 && index % (uint64_t)o->shards != (uint64_t)o->shard)
        return false;
    if (list) {
        report(
            session,
            &(clt_verify_result){
                .index = index, .name = session->name, .state = CLT_VERIFY_PASS, .reason = "", .repeat = ""});
        return false;
    }
    clt_verify_claim claim = {index, item->subject, item->name, session->pass,
                              o->claim ? 1 : (uint64_t)session->pass + 1};
    if (o->claim ? !o->claim(o->context, &claim) : o->until > 0 && clt_now() >= o->until)
        return false;
    session->round = claim.round;
    session->seed = session->summary->seed + claim.round - 1;
    session->index = index;
    if (o->begun)
        o->begun(o->context, index, session->name);
    *outcome = (clt_verify_outcome){.state = CLT_VERIFY_PASS, .reducer = o->reducer};
    session->ended = session->until && strcmp(session->until, session->name) == 0;
    session->ran++;
    session->started = clt_now();
    return true;
}

/* --- reports --- */

static void append(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t size, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, size - used, format, args);
    va_end(args);
}

void clt_verify_repeat(const clt_verify_options *o, const char *name, uint64_t seed, const char *spec,
                       bool after, char *out, size_t size)
{
    char caps[256], limits[OCL_SIZE_LIMITS_TEXT];
    ocl_size_limits in_use;
    if (ocl_size_limits_in_use(&in_use) != CLT_OK) /* then no device was found, so no check failed */
        clt_error_clear();
    ocl_size_limits_text(&in_use, limits, sizeof limits);
    snprintf(out, size, "cltrain verify -t '%s' --seed %llu --device %s", name, (unsigned long long)seed,
             spec);
    if (o->caps_mask != OCL_CAPS_ALL) {
        ocl_caps_text(o->caps_mask, caps, sizeof caps);
        append(out, size, " --caps %s%s%s", *caps ? caps : "none", *limits ? "," : "", limits);
    } else if (*limits) {
        append(out, size, " --caps %s", limits);
    }
    if (!after)
        return;
    append(out, size, " --after '%s'", o->after ? o->after : o->pattern ? o->pattern : "*");
    append(out, size, "%s", !o->small ? "" : o->own_forms ? " --quick" : " --small");
    if (o->shards > 1)
        append(out, size, " --shard %d/%d", o->shard, o->shards);
    for (unsigned bit = CLT_VERIFY_CORRECT, first = 1; o->modes && bit <= CLT_VERIFY_PERF; bit <<= 1)
        if (o->modes & bit) {
            append(out, size, "%s%s", first ? " --mode " : ",", mode_name(bit));
            first = 0;
        }
}

/* True for failures after which no check can run on this device or machine. */
static bool ends_run(clt_status status)
{
    return status == CLT_EDEVLOST || status == CLT_ENOMEM || status == CLT_EDEVICE;
}

clt_status clt_verify_finish(clt_verify_session *session, clt_verify_outcome *outcome, clt_status status)
{
    char repeat[1024];
    if (ends_run(status))
        return clt_fail_prefix(status, "verify %s: ", session->name);
    if (status == CLT_EDEVMEM)
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "%s", clt_error_text());
    else if (status != CLT_OK)
        clt_verify_set(outcome, CLT_VERIFY_FAIL, "%s: %s", clt_status_text(status), clt_error_text());
    clt_error_clear();
    bool failed = outcome->state != CLT_VERIFY_PASS && outcome->state != CLT_VERIFY_SKIP;
    clt_verify_repeat(session->options, session->name, session->seed, session->desc.spec,
                      failed && session->ran > 1, repeat, sizeof repeat);
    session->summary->count[outcome->state]++;
    double ms = outcome->ms > 0.0 ? outcome->ms : (clt_now() - session->started) * 1e3;
    report(session, &(clt_verify_result){.index = session->index,
                                         .name = session->name,
                                         .state = outcome->state,
                                         .status = status,
                                         .round = session->round,
                                         .seed = session->seed,
                                         .reason = outcome->reason,
                                         .error = outcome->error,
                                         .limit = outcome->limit,
                                         .bits = outcome->bits,
                                         .ms = ms,
                                         .repeat = repeat,
                                         .speeds = outcome->speeds,
                                         .n_speeds = outcome->n_speeds});
    return CLT_OK;
}

/* On a CPU device without wide vectors (Mesa's llvmpipe), compiling a kernel written for them takes minutes,
 * because the compiler splits vectors into much code. With `small` such variants are skipped; a full run
 * checks them. */
static bool is_costly(const clt_verify_session *session, ocl_answer answer)
{
    return session->options->small && session->desc.is_cpu && answer == OCL_ANSWER_NO;
}

/* On a CPU, kernels for bf16 and for f16 differ only in the conversions, and the checks `known` cover every
 * value of these. Compiling the kernels for bf16 would take a fifth of the quick list's time. */
static bool is_like_f16(const clt_verify_session *session, const clt_verify_item *item)
{
    return item->bf16 && session->options->own_forms && session->desc.is_cpu;
}

bool clt_verify_wants(clt_verify_session *session, const clt_verify_item *item, clt_verify_outcome *outcome)
{
    if (!selects(session, item, outcome))
        return false;
    if (!is_like_f16(session, item))
        return true;
    clt_verify_set(
        outcome, CLT_VERIFY_SKIP,
        "skipped by --quick on a CPU device, where bf16 is computed as f16 is; 'cltrain verify' checks it");
    (void)clt_verify_finish(session, outcome, CLT_OK); /* only failures of checks end a run */
    return false;
}

bool clt_verify_offers(const clt_verify_session *session, const char *what, uint32_t caps,
                       clt_verify_outcome *outcome)
{
    if (!(session->desc.caps & OCL_CAP_LOCAL)) /* without local memory training uses this variant */
        return true;
    for (int cap = 0; cap < OCL_CAP_COUNT; cap++) {
        ocl_cap_report report = {OCL_ANSWER_YES, ""};
        if (caps >> cap & 1u)
            report = ocl_device_cap_report(session->device, cap);
        if (ocl_answer_is_loss(report.answer))
            clt_verify_set(outcome, CLT_VERIFY_SKIP, "%s: the driver lost %s (%s): %s", what,
                           ocl_cap_name(cap), ocl_answer_name(report.answer), report.reason);
        else if (is_costly(session, report.answer))
            clt_verify_set(outcome, CLT_VERIFY_SKIP,
                           "%s: skipped with small cases on a CPU device without %s: %s", what,
                           ocl_cap_name(cap), report.reason);
        else
            continue;
        return false;
    }
    return true;
}

ocl_device_desc clt_verify_desc(const clt_verify_session *session)
{
    ocl_device_desc desc = session->desc;
    if (!session->options->own_forms)
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
    return desc;
}

/* --- runs --- */

uint64_t clt_verify_fresh_seed(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed =
        ((uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_nsec + (uint64_t)getpid()) % 1000000000u;
    return seed + 1;
}

clt_status clt_verify_check_options(const clt_verify_options *o)
{
    if (o->shards > 1 && (o->shard < 0 || o->shard >= o->shards))
        CLT_FAIL(CLT_EUSAGE, "verify: shard %d of %d does not exist; shards count from 0 to %d", o->shard,
                 o->shards, o->shards - 1);
    return CLT_OK;
}

clt_status clt_verify_open(const clt_verify_options *o, ocl_device **out)
{
    const ocl_open_options open = {.spec = o->device_spec,
                                   .caps_mask = o->caps_mask,
                                   .checker = true,
                                   .profiling = (o->modes & CLT_VERIFY_PERF) != 0};
    return ocl_device_open(&open, out);
}

/* The description of the open device, as checks plan with it. */
static void describe(clt_verify_session *session)
{
    session->desc = *ocl_device_describe(session->device);
    if (session->desc.is_cpu && !(session->modes & CLT_VERIFY_PERF))
        session->desc.quirks |= OCL_QUIRK_FOREIGN_UNOPTIMISED;
}

static clt_status begin(clt_verify_session *session)
{
    const clt_verify_options *o = session->options;
    CLT_TRY(clt_verify_check_options(o));
    session->seed = session->summary->seed = o->seed ? o->seed : clt_verify_fresh_seed();
    unsigned chosen = o->modes & ~(unsigned)CLT_VERIFY_LIST;
    session->modes = chosen ? chosen : CLT_VERIFY_CORRECT | CLT_VERIFY_GRAD | CLT_VERIFY_BITWISE;
    if (o->modes & CLT_VERIFY_LIST)
        return CLT_OK; /* listing names needs no device */
    CLT_TRY(clt_verify_open(o, &session->device));
    describe(session);
    return CLT_OK;
}

clt_status clt_verify_verdict(const clt_verify_options *o, const clt_verify_summary *summary,
                              uint64_t matched, const char *spec, const char *device)
{
    const int *count = summary->count;
    if (matched == 0)
        CLT_FAIL(
            CLT_EUSAGE,
            "verify: no check has a name that matches '%s'%s; 'cltrain verify --mode list' prints all names",
            o->pattern ? o->pattern : "*", o->small ? " among the small cases" : "");
    int failed = count[CLT_VERIFY_FAIL] + count[CLT_VERIFY_UNIMPL] + count[CLT_VERIFY_MISTRUST];
    if (failed > 0)
        CLT_FAIL(CLT_ECHECK, "verify: %d of %d check%s failed on device %s '%s' (seed %llu)", failed,
                 failed + count[CLT_VERIFY_PASS], CLT_PLURAL(failed + count[CLT_VERIFY_PASS]), spec, device,
                 (unsigned long long)summary->seed);
    return CLT_OK;
}

static clt_status end(clt_verify_session *session, clt_status status)
{
    ocl_device_close(session->device);
    session->summary->seconds = clt_now() - session->summary->seconds;
    CLT_TRY(status);
    return clt_verify_verdict(session->options, session->summary, session->matched, session->desc.spec,
                              session->desc.name);
}

/* The subjects that a run checks. */
typedef struct verify_subjects {
    const clt_op *const *ops;
    int count;
    bool all; /* also everything else: products, known answers, the device alone, the update */
} verify_subjects;

static verify_subjects all_subjects(void)
{
    verify_subjects all = {.all = true};
    all.ops = clt_op_list(&all.count);
    return all;
}

static clt_status check_subjects(clt_verify_session *session, const verify_subjects *subjects)
{
    CLT_TRY(clt_verify_ops(session, subjects->ops, subjects->count));
    if (!subjects->all)
        return CLT_OK;
    CLT_TRY(clt_verify_moments(session));
    CLT_TRY(clt_verify_residual(session));
    CLT_TRY(clt_verify_gemm(session));
    CLT_TRY(clt_verify_known(session));
    CLT_TRY(clt_verify_reals(session));
    CLT_TRY(clt_verify_integers(session));
    CLT_TRY(clt_verify_groups(session));
    CLT_TRY(clt_verify_memory(session));
    CLT_TRY(clt_verify_updates(session));
    return clt_verify_speeds(session);
}

/* Runs the checks of a selection in order, up to the one named `until`. */
static clt_status run_selection(const clt_verify_options *options, const verify_subjects *subjects,
                                const char *until, clt_verify_summary *summary)
{
    clt_verify_session session = {.options = options, .summary = summary, .until = until};
    *summary = (clt_verify_summary){.seconds = clt_now()};
    clt_status status = begin(&session);
    if (status == CLT_OK && options->opened)
        options->opened(options->context, &session.desc);
    /* with `until`, further passes follow until one of them runs no check */
    int passes = options->claim ? 2 : 1;
    for (bool more = true; status == CLT_OK && more; session.pass++) {
        uint64_t before = session.ran;
        session.matched = 0;
        status = check_subjects(&session, subjects);
        more = session.pass + 1 < passes ||
               (options->until > 0 && (session.pass < passes || session.ran > before));
    }
    summary->matched = session.matched;
    return end(&session, status);
}

static clt_status run_subjects(const clt_verify_options *options, const verify_subjects *subjects,
                               clt_verify_summary *summary)
{
    if (!options->after)
        return run_selection(options, subjects, NULL, summary);
    clt_verify_options alone = *options, before = *options;
    alone.after = NULL;
    alone.small = false;
    alone.shards = 0;
    before.pattern = options->after;
    CLT_TRY(run_selection(&alone, subjects, NULL, summary));
    return run_selection(&before, subjects, options->pattern, summary);
}

clt_status clt_verify_run_ops(const clt_verify_options *options, const clt_op *const *ops, int count,
                              clt_verify_summary *summary)
{
    verify_subjects subjects = {ops, count, false};
    return run_subjects(options, &subjects, summary);
}

clt_status clt_verify_run(const clt_verify_options *options, clt_verify_summary *summary)
{
    verify_subjects all = all_subjects();
    return run_subjects(options, &all, summary);
}

static void count_name(void *context, const clt_verify_result *result)
{
    (void)result;
    ++*(uint64_t *)context;
}

clt_status clt_verify_count(const clt_verify_options *options, uint64_t *out)
{
    clt_verify_options names = *options;
    clt_verify_summary summary;
    names.modes = options->modes | CLT_VERIFY_LIST;
    names.opened = NULL;
    names.claim = NULL;
    names.begun = NULL;
    names.result = count_name;
    names.context = out;
    *out = 0;
    clt_status status = clt_verify_run(&names, &summary);
    if (status == CLT_EUSAGE && summary.matched == 0) { /* clt_verify_run reports that nothing matches */
        clt_error_clear();
        status = CLT_OK;
    }
    return status;
}

clt_status clt_verify_on(ocl_device *device, const clt_verify_options *options, clt_verify_summary *summary)
{
    verify_subjects all = all_subjects();
    clt_verify_session session = {.options = options,
                                  .summary = summary,
                                  .device = device,
                                  .desc = *ocl_device_describe(device),
                                  .seed = options->seed,
                                  .modes = options->modes};
    *summary = (clt_verify_summary){.seconds = clt_now(), .seed = options->seed};
    if (options->reducer) /* not in self-tests, which must prove exactly the programs that a training uses */
        describe(&session);
    clt_status status = check_subjects(&session, &all);
    summary->seconds = clt_now() - summary->seconds;
    if (status == CLT_OK && session.matched == 0)
        CLT_FAIL(CLT_EINTERNAL, "verify: no check is named '%s'", options->pattern);
    return status;
}
