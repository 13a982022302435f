/* SPDX-License-Identifier: Apache-2.0
 *
 * The search: starts the worker, tries smaller cases one after the other, and has the worker write the
 * folder of the smallest one. Knows the numbers of a case, not their meaning. */
#include "engine/verify/reduce/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"
#include "engine/verify/reduce/reduce_report.h"

#define OPEN_SECONDS 1200.0 /* seconds until the device must be open: it may have to be probed first */
#define SEND_SECONDS 60.0
/* The search ends after this number of trials, or of seconds, with the smallest case so far. */
#define MAX_TRIALS 300
#define MAX_SECONDS 1800.0
#define WRITE_TRIALS 20 /* an intermittent failure is run up to this number of times until it is written */

typedef struct search {
    const clt_reduce_options *options;
    char *program;
    clt_child *child; /* NULL: not started, or dead */
    clt_reduction found;
    uint64_t tried[MAX_TRIALS + WRITE_TRIALS + 1];
    int n_tried;
    double began;
} search;

static void search_destroy(search *s)
{
    if (!s)
        return;
    clt_child_drop(s->child);
    free(s->program);
    free(s);
}
CLT_SCOPED_POINTER(search, search_destroy)

/* --- the worker --- */

/* Reads lines until one begins with `word`, and stores what the other lines report. NULL: the worker has
 * died, or writes nothing. */
static const char *await(search *s, const char *word, double seconds)
{
    const char *line = NULL;
    for (;;) {
        if (clt_child_next_awake(s->child, seconds, &line) != CLT_CHILD_LINE)
            return NULL;
        if (strncmp(line, "error ", 6) == 0 || strncmp(line, word, strlen(word)) == 0)
            return line;
        int kind, used = 0;
        clt_slots *slots = &s->found.first;
        if (slots->count > 0 || sscanf(line, "slots %d %d%n", &kind, &slots->count, &used) != 2)
            continue;
        if (slots->count > CLT_SLOTS)
            slots->count = 0;
        for (int i = 0; i < slots->count; i++) {
            int more = 0, is_size = 0;
            clt_slot *slot = &slots->slot[i];
            if (sscanf(line + used, " %31[^=]=%" SCNd64 ":%" SCNd64 ":%d%n", slot->name, &slot->value,
                       &slot->least, &is_size, &more) != 4)
                slots->count = i;
            slot->is_size = is_size != 0;
            used += more;
        }
    }
}

static clt_status start(search *s)
{
    const clt_reduce_options *o = s->options;
    char folder[4200];
    CLT_TRY(clt_verify_worker_start(s->program, &o->check, "--trials", &s->child));
    const char *line = await(s, "device ", OPEN_SECONDS);
    if (!line || !clt_verify_take_device(line, &s->found.device))
        CLT_FAIL(CLT_EDEVICE, "reducing %s: the worker process cannot open the device%s%s", o->check.pattern,
                 line ? ": " : "", line ? line : "");
    int length = snprintf(folder, sizeof folder, "folder %s\n", o->folder);
    if (length < 0 || (size_t)length >= sizeof folder)
        CLT_FAIL(CLT_EUSAGE, "reducing %s: the name of the folder is too long", o->check.pattern);
    return clt_child_send(s->child, folder, (size_t)length, SEND_SECONDS);
}

static clt_verdict verdict_named(const char *name)
{
    static const char *const names[] = {"pass", "skip", "wrong", "other", "error", "", "", "unwritten"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return (clt_verdict)i;
    return VERDICT_OTHER;
}

static void died(search *s, clt_trial *out)
{
    clt_child_end end;
    clt_child_stop(CLT_TAKE(s->child), &end);
    out->verdict = end.event == CLT_CHILD_SILENT ? VERDICT_HANG : VERDICT_CRASH;
    clt_child_loss(&end, "the driver ends the process with", "the driver does not answer in", NULL,
                   out->reason, sizeof out->reason);
}

/* Runs the check with these numbers (NULL: as the case is). request: "try", or "write HOW". */
static clt_status run_trial(search *s, const char *request, const clt_slots *slots, clt_trial *out)
{
    CLT_SCOPED(clt_str) text = {0};
    char name[16];
    int used = 0, status = 0;
    *out = (clt_trial){.verdict = VERDICT_SKIP};
    if (!s->child)
        CLT_TRY(start(s));
    clt_str_printf(&text, "%s %d", request, slots ? slots->count : 0);
    for (int i = 0; slots && i < slots->count; i++)
        clt_str_printf(&text, " %" PRId64, slots->slot[i].value);
    clt_str_append(&text, "\n");
    CLT_TRY(clt_str_check(&text));
    s->found.trials++;
    if (clt_child_send(s->child, text.text, text.length, SEND_SECONDS) != CLT_OK)
        clt_error_clear(); /* the process has died, which reading the next line reports */
    const char *line = await(s, "verdict ", s->options->limit);
    if (!line) {
        died(s, out);
        return CLT_OK;
    }
    if (sscanf(line, "error %d %n", &status, &used) == 1) {
        snprintf(out->reason, sizeof out->reason, "%.1000s", line + used);
        out->verdict = VERDICT_ERROR;
    } else if (sscanf(line, "verdict %15s %d %la %la %n", name, &status, &out->error, &out->limit, &used) ==
               4) {
        out->verdict = verdict_named(name);
        snprintf(out->reason, sizeof out->reason, "%.1000s", line + used);
    }
    out->status = status > CLT_OK && status < CLT_STATUS_COUNT ? (clt_status)status : CLT_OK;
    if (out->status == CLT_EDEVLOST) /* the worker can no longer use this device */
        clt_child_drop(CLT_TAKE(s->child));
    return CLT_OK;
}

/* --- smaller cases --- */

static bool is_new(search *s, const clt_slots *slots)
{
    int64_t values[CLT_SLOTS];
    for (int i = 0; i < slots->count; i++)
        values[i] = slots->slot[i].value;
    uint64_t key = clt_hash64(values, (size_t)slots->count * sizeof *values);
    for (int i = 0; i < s->n_tried; i++)
        if (s->tried[i] == key)
            return false;
    s->tried[s->n_tried++] = key;
    return true;
}

/* Tries a case; it becomes the current one if it fails in the same way. */
static clt_status consider(search *s, const clt_slots *slots, bool *better)
{
    clt_reduction *f = &s->found;
    clt_trial trial;
    *better = false;
    if (f->trials >= MAX_TRIALS || clt_now() - s->began > MAX_SECONDS || !is_new(s, slots))
        return CLT_OK;
    CLT_TRY(run_trial(s, "try", slots, &trial));
    *better = trial.verdict == f->failure.verdict && trial.status == f->failure.status;
    if (*better) {
        f->now = *slots;
        f->failure = trial;
    } else if (trial.verdict == VERDICT_PASS && f->n_passed < CLT_PASSED_KEPT) {
        f->passed[f->n_passed++] = *slots;
    }
    return CLT_OK;
}

/* Makes number `at` smaller: alone, or together with all sizes that equal it. */
static clt_status shrink(search *s, int at, bool together, bool *better)
{
    const clt_slot old = s->found.now.slot[at];
    const int64_t values[] = {old.least,    1, 2, 3, 5, old.value / 2, old.value / 2 + 1, old.value - 2,
                              old.value - 1};
    for (size_t v = 0; v < sizeof values / sizeof values[0] && !*better; v++) {
        clt_slots slots = s->found.now;
        if (values[v] < old.least || values[v] >= old.value)
            continue;
        slots.slot[at].value = values[v];
        for (int i = 0; i < slots.count && together && old.is_size; i++)
            if (slots.slot[i].is_size && slots.slot[i].value == old.value && values[v] >= slots.slot[i].least)
                slots.slot[i].value = values[v];
        CLT_TRY(consider(s, &slots, better));
    }
    return CLT_OK;
}

static clt_status shrink_all(search *s)
{
    bool any = true;
    while (any) {
        any = false;
        /* choices, then sizes together with the sizes equal to them, then single sizes */
        for (int pass = 0; pass < 3; pass++)
            for (int i = 0; i < s->found.now.count; i++) {
                bool better = false;
                if (s->found.now.slot[i].is_size == (pass > 0))
                    CLT_TRY(shrink(s, i, pass == 1, &better));
                any |= better;
            }
    }
    return CLT_OK;
}

/* --- the folder --- */

/* Finds out whether the worker has written the program: a worker that has died could not report it. */
static clt_status is_there(const search *s, bool *there)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(s->options->folder, "repro.c", &path));
    *there = clt_file_exists(path);
    return CLT_OK;
}

static clt_status write_folder(search *s, clt_reduced *out)
{
    clt_reduction *f = &s->found;
    bool dies = f->failure.verdict == VERDICT_CRASH || f->failure.verdict == VERDICT_HANG;
    const char *request = dies                                  ? "write before"
                          : f->failure.verdict == VERDICT_ERROR ? "write refused"
                                                                : "write after";
    for (int i = 0; i < WRITE_TRIALS; i++) {
        clt_trial trial;
        CLT_TRY(run_trial(s, request, &f->now, &trial));
        if (trial.verdict == VERDICT_UNWRITTEN) {
            if (trial.status == CLT_ESTORAGE)
                CLT_FAIL(CLT_ESTORAGE, "%s", trial.reason);
            snprintf(out->reason, sizeof out->reason, "%s", trial.reason);
            return CLT_OK;
        }
        if (trial.verdict != f->failure.verdict || trial.status != f->failure.status)
            continue;
        f->failure = trial;
        CLT_TRY(is_there(s, &out->written));
        if (!out->written) {
            snprintf(out->reason, sizeof out->reason,
                     "%.700s in a run that a program with only OpenCL cannot repeat: CLBlast or other ranks "
                     "take part, or its buffers are too large",
                     trial.reason);
            return CLT_OK;
        }
        CLT_TRY(clt_reduce_report(s->options, f));
        snprintf(out->reason, sizeof out->reason, "%s", trial.reason);
        return CLT_OK;
    }
    snprintf(out->reason, sizeof out->reason, "the failure comes and goes: it did not come again in %d runs",
             WRITE_TRIALS);
    return CLT_OK;
}

/* Makes the first trial, which finds out whether the check fails alone, and in a way that a program can
 * show. */
static clt_status begin(search *s, clt_reduced *out)
{
    clt_trial *first = &s->found.failure;
    const char *why = NULL;
    CLT_TRY(run_trial(s, "try", NULL, first));
    switch (first->verdict) {
    case VERDICT_PASS:
        why = "the check passes when it runs alone; its repeat line runs the checks before it, too";
        break;
    case VERDICT_SKIP:
        why = "the check is skipped when it runs alone";
        break;
    case VERDICT_OTHER:
        why = "this check judges other things than the values of one buffer; its reason was: ";
        break;
    case VERDICT_ERROR:
        if (first->status != CLT_EBUILD && first->status != CLT_EDEVICE && first->status != CLT_EDEVLOST &&
            first->status != CLT_EDEVMEM)
            why = "no call of the driver failed, but: ";
        break;
    default:
        break;
    }
    if (why)
        snprintf(out->reason, sizeof out->reason, "%s%.700s", why, first->reason);
    return CLT_OK;
}

clt_status clt_reduce(const clt_reduce_options *options, clt_reduced *out)
{
    CLT_SCOPED(search) *s = NULL;
    const char *mode = strrchr(options->check.pattern, '/');
    *out = (clt_reduced){0};
    if (!mode || strcmp(mode, "/correct") != 0) {
        snprintf(out->reason, sizeof out->reason,
                 "%s: only checks of the mode correct compare values of the device with a reference",
                 mode ? mode + 1 : options->check.pattern);
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "a reduction"));
    s->options = options;
    s->began = clt_now();
    CLT_TRY(clt_program_find(&s->program));
    CLT_TRY(begin(s, out));
    if (out->reason[0] == '\0') {
        s->found.now = s->found.first;
        CLT_TRY(shrink_all(s));
        CLT_TRY(write_folder(s, out));
    }
    if (!out->written && clt_is_directory(options->folder))
        CLT_TRY(clt_remove_tree(options->folder));
    CLT_SCOPED(clt_str) shape = {0};
    clt_slots_text(&s->found.now, &shape);
    snprintf(out->shape, sizeof out->shape, "%s", shape.text ? shape.text : "");
    out->trials = s->found.trials;
    return CLT_OK;
}
