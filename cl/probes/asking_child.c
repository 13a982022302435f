/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a device in child processes. If a child crashes or hangs, that is the answer to its current
 * question, and another child continues with the rest. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/device/pocl.h"
#include "cl/probes/asking.h"
#include "cl/probes/asking_child.h"
#include "cl/program/builders.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/host/child.h"

#define TEST_SECONDS 180.0 /* time limit of a self-test: some compilers need a minute for a large kernel */

/* --- one child --- */

typedef struct prober {
    const ocl_device_desc *desc;
    uint32_t mask;
    bool tests;
    int share; /* share of the questions, or OCL_ALL_SHARES */
    ocl_style style;
    ocl_capabilities *capabilities;
    clt_child *child; /* a child that has answered and waits for more questions, or NULL */
    ocl_item current; /* the question that was asked and is not answered yet; "" if none */
    ocl_ahead phase;  /* the phase whose programs the child is building ahead */
    int n_ahead;      /* number of programs of this phase */
    double ahead_began;
    bool one_by_one; /* children build one program at a time, because one was lost while it built ahead */
    bool greeted, done;
    bool must_be_replaced; /* the child has left its other questions to the next child */
    clt_status status;     /* why the child cannot continue, with `error`; CLT_OK: it has reported nothing */
    char error[512];
} prober;

/* Time limit of the current question, in seconds. */
static double limit_of(const prober *v)
{
    bool test = v->phase == OCL_AHEAD_TESTS || ocl_item_is_test(&v->current);
    return ocl_probe_limit(test ? TEST_SECONDS : OCL_PROBE_SECONDS);
}

/* Takes a line about building ahead. The child sends it again after each program, so that the time limit is
 * for one program. */
static bool take_ahead(prober *v, const char *line)
{
    int phase, done, total;
    if (sscanf(line, "ahead %d %d %d", &phase, &done, &total) != 3 || phase < OCL_AHEAD_NOTHING ||
        phase > OCL_AHEAD_TESTS)
        return false;
    if (phase == OCL_AHEAD_NOTHING && v->n_ahead > 0)
        CLT_DEBUG("device %s: %d programs of %s were built ahead in %.3f s", v->desc->spec, v->n_ahead,
                  v->phase == OCL_AHEAD_TESTS ? "self-tests" : "probes", clt_now() - v->ahead_began);
    if (phase != OCL_AHEAD_NOTHING && v->phase == OCL_AHEAD_NOTHING)
        v->ahead_began = clt_now();
    v->phase = (ocl_ahead)phase;
    v->n_ahead = total;
    return true;
}

/* Takes a line that announces a question. False: the line is malformed. */
static bool take_begin(prober *v, const char *line)
{
    ocl_item item = {0};
    if (sscanf(line, "begin %39s %" SCNx32, item.name, &item.drops) != 2)
        return false;
    v->current = item;
    return true;
}

static bool take_end(prober *v, const char *line)
{
    ocl_item item = {0};
    int answer = 0, at = 0;
    if (sscanf(line, "end %39s %d %" SCNx32 " %" SCNu64 "%n", item.name, &answer, &item.drops, &item.value,
               &at) != 4 ||
        answer <= 0 || answer >= OCL_ANSWER_COUNT)
        return false;
    item.answer = (ocl_answer)answer;
    snprintf(item.reason, sizeof item.reason, "%s", line + at + (line[at] == ' '));
    v->current.name[0] = '\0';
    return ocl_capabilities_set(v->capabilities, &item) == CLT_OK;
}

static bool take_line(prober *v, const char *line)
{
    char key[CLT_HASH64_TEXT];
    if (strncmp(line, "device ", 7) == 0) {
        v->greeted = strcmp(line + 7, clt_hash64_text(v->capabilities->key, key)) == 0;
        v->status = CLT_EUNSUPPORTED;
        if (!v->greeted)
            snprintf(
                v->error, sizeof v->error,
                "device %s is another one in the child process, or the program is another version of cltrain",
                v->desc->spec);
        return v->greeted;
    }
    int status = 0, at = 0;
    if (sscanf(line, "error %d %n", &status, &at) == 1 && at > 0) {
        v->status = status == CLT_ENOMEM ? CLT_ENOMEM : CLT_EUNSUPPORTED;
        snprintf(v->error, sizeof v->error, "%s", line + at);
        return false;
    }
    if (!v->greeted)
        return false;
    v->done = strcmp(line, "done") == 0;
    v->must_be_replaced = strcmp(line, "replace me") == 0;
    return v->done || v->must_be_replaced || take_begin(v, line) || take_end(v, line) || take_ahead(v, line);
}

/* Sends the questions to the waiting child, or to a new one. */
static clt_status start(prober *v)
{
    CLT_SCOPED(clt_str) line = {0};
    clt_str_printf(&line, "ask\t%s\t%08" PRIx32 "\t%d\t%d\t%d\t", ocl_style_name(v->style), v->mask, v->share,
                   v->tests, v->one_by_one);
    ocl_asking_have(v->capabilities, &line);
    clt_str_append(&line, "\n");
    CLT_TRY(clt_str_check(&line));
    if (v->child == NULL)
        CLT_TRY(ocl_device_child_start(v->desc->spec, &v->child));
    if (clt_child_send(v->child, line.text, line.length, OCL_PROBE_SECONDS) != CLT_OK)
        clt_error_clear(); /* no answer will come, which shows that the child has ended */
    return CLT_OK;
}

/* Turns the end of the child into an answer to the question that it was working on. */
static clt_status answer_from_end(prober *v, const clt_child_end *end)
{
    ocl_item *item = &v->current;
    bool ended = end->event == CLT_CHILD_ENDED, killed = ended && end->signal == SIGKILL;
    if (ended && !killed && (v->desc->quirks & OCL_QUIRK_OWN_CACHE) && ocl_pocl_mend()) {
        item->name[0] = '\0'; /* the next child asks it again */
        return CLT_OK;
    }
    item->answer = end->event == CLT_CHILD_SILENT ? OCL_ANSWER_HUNG
                   /* killed by the system, for example for lack of memory: not remembered */
                   : killed ? OCL_ANSWER_FAILED
                            : OCL_ANSWER_CRASHED;
    clt_child_loss(end, "the driver ended its process with", "no answer in",
                   "the child process wrote an invalid answer", item->reason, sizeof item->reason);
    clt_status status = ocl_capabilities_set(v->capabilities, item);
    item->name[0] = '\0';
    return status;
}

/* A child died or hung while it built programs ahead. That answers no question: the next child builds each
 * program when its question is asked, so that the failure goes to the right question. */
static void lose_ahead(prober *v, const clt_child_end *end)
{
    char why[384];
    v->one_by_one = true;
    clt_child_loss(end, "building programs ahead ended with", "no program was built ahead in", NULL, why,
                   sizeof why);
    CLT_DEBUG("device %s: %s", v->desc->spec, why);
}

/* Takes all answers of a child. CLT_EDEVICE: the child failed before its first question; CLT_ENOMEM: it ran
 * out of memory, as this process would. */
static clt_status take_capabilities(prober *v)
{
    clt_child_end end;
    const char *line;
    char why[384];
    v->done = v->must_be_replaced = v->greeted = false;
    v->phase = OCL_AHEAD_NOTHING;
    v->current.name[0] = v->error[0] = '\0';
    while (!v->done && !v->must_be_replaced &&
           clt_child_next_awake(v->child, limit_of(v), &line) == CLT_CHILD_LINE && take_line(v, line))
        continue;
    if (v->done)
        return CLT_OK;
    clt_child_stop(CLT_TAKE(v->child), &end);
    if (end.last_line[0])
        CLT_DEBUG("asking device %s: the child process said: %s", v->desc->spec, end.last_line);
    if (v->phase != OCL_AHEAD_NOTHING)
        lose_ahead(v, &end);
    if (v->phase != OCL_AHEAD_NOTHING || v->must_be_replaced)
        return CLT_OK;
    if (v->current.name[0] != '\0' && v->error[0] == '\0')
        return answer_from_end(v, &end);
    if (v->error[0] != '\0')
        CLT_FAIL(v->status, "asking device %s in a child process: %s", v->desc->spec, v->error);
    clt_child_loss(&end, "listing devices ended a child process with",
                   "the driver did not list its devices in", NULL, why, sizeof why);
    CLT_FAIL(CLT_EDEVICE, "asking device %s '%s': %s", v->desc->spec, v->desc->name, why);
}

/* Starts a child, or uses the waiting one, and takes its answers. CLT_EUNSUPPORTED: no child can be
 * started. */
static clt_status run_child(prober *v)
{
    CLT_TRY(start(v));
    return take_capabilities(v);
}

/* --- two children --- */

/* On CPU devices, questions take a second of one core and self-tests several, so two children work in
 * parallel, on one share each. Questions of one share do not depend on answers of the other share, so
 * answers are kept even if a child fails. Self-tests do depend on the other share: each child assumes that
 * the other's tests succeed. So if anything fails, the self-test answers of both children are dropped, and
 * one child runs all tests in their order. */
typedef struct companion {
    prober own;
    ocl_capabilities capabilities;
    clt_error error;
} companion;

static void *run_companion(void *context)
{
    companion *c = context;
    clt_error_take(take_capabilities(&c->own), &c->error);
    return NULL;
}

/* Adds the answers that only the second child has. */
static clt_status merge(ocl_capabilities *capabilities, const ocl_capabilities *other)
{
    for (int i = 0; i < other->count; i++)
        if (ocl_capabilities_find(capabilities, other->items[i].name) == NULL)
            CLT_TRY(ocl_capabilities_set(capabilities, &other->items[i]));
    return CLT_OK;
}

/* The child, if it has given all its answers and so can get more questions. Any other child is ended. */
static clt_child *kept_child(const prober *v)
{
    if (v->done || v->child == NULL)
        return v->child;
    clt_child_stop(v->child, NULL);
    return NULL;
}

/* Sends each of the two shares to a child: a waiting one from `kept`, or a new one. This thread starts both,
 * because children end with the thread that starts them. *well: both have answered all their questions. */
static clt_status run_shares(prober *v, bool tests, clt_child *kept[2], bool *well)
{
    CLT_FREED companion *c = NULL;
    clt_thread *thread = NULL;
    prober own = *v;
    *well = false;
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "a second child process"));
    c->capabilities = *v->capabilities;
    own.tests = tests;
    c->own = own;
    c->own.capabilities = &c->capabilities;
    own.share = 0;
    own.child = kept[0];
    c->own.share = 1;
    c->own.child = kept[1];
    clt_status status = start(&own);
    bool second = status == CLT_OK && start(&c->own) == CLT_OK &&
                  clt_thread_start(&thread, "questions", run_companion, c) == CLT_OK;
    if (status == CLT_OK) {
        clt_error_clear(); /* if the second child could not be started, its questions stay open */
        status = take_capabilities(&own);
    }
    clt_thread_join(thread);
    kept[0] = kept_child(&own);
    kept[1] = kept_child(&c->own);
    *well = status == CLT_OK && second && own.done && c->own.done && c->error.status == CLT_OK;
    CLT_TRY(status);
    return merge(v->capabilities, &c->capabilities);
}

static void forget_new_tests(ocl_capabilities *capabilities, const ocl_capabilities *before)
{
    int kept = 0;
    for (int i = 0; i < capabilities->count; i++) {
        const ocl_item *item = &capabilities->items[i];
        if (!ocl_item_is_test(item) || ocl_capabilities_find(before, item->name) != NULL)
            capabilities->items[kept++] = *item;
    }
    capabilities->count = kept;
}

/* Like run_child, but two children work in parallel. The caller has one child answer the remaining
 * questions. Usually there are none, and the two children are kept waiting. */
static clt_status run_two(prober *v, clt_child *kept[2])
{
    CLT_FREED ocl_capabilities *before = NULL;
    bool well;
    clt_status status = run_shares(v, false, kept, &well);
    if (status != CLT_OK && status != CLT_EUNSUPPORTED) {
        clt_error_clear(); /* one child alone, with twice the memory, may succeed */
        return CLT_OK;
    }
    CLT_TRY(status);
    if (!well || ocl_capabilities_refusal(v->capabilities, false) != NULL)
        return CLT_OK;
    CLT_TRY(clt_alloc(&before, 1, sizeof *before, "answers"));
    *before = *v->capabilities;
    v->done =
        run_shares(v, true, kept, &well) == CLT_OK && well && !ocl_capabilities_lost_test(v->capabilities);
    if (!v->done) {
        clt_error_clear();
        forget_new_tests(v->capabilities, before);
    }
    return CLT_OK;
}

/* Keeps the two children as builders for the training that follows, if the driver compiles serially;
 * otherwise ends them. */
static void keep_or_stop(const ocl_found *found, bool keep, clt_child *kept[2])
{
    uint64_t key;
    keep = keep && (found->desc.quirks & OCL_QUIRK_SERIAL_BUILDS) != 0 &&
           ocl_capabilities_key(&found->desc, OCL_STYLE_ASKED, &key) == CLT_OK;
    for (int i = 0; i < 2; i++)
        if (kept[i] != NULL && keep)
            ocl_builders_adopt(key, kept[i]);
        else if (kept[i] != NULL)
            clt_child_stop(kept[i], NULL);
}

/* --- all children --- */

/* Asks the questions in this process, because no child can be started: that is better than having no
 * capabilities. */
static clt_status ask_without_child(const ocl_found *found, const ocl_asking_options *w,
                                    ocl_capabilities *capabilities)
{
    ocl_asker asker = {.found = found,
                       .mask = w->mask,
                       .tests = w->tests,
                       .share = OCL_ALL_SHARES,
                       .style = w->style,
                       .capabilities = capabilities};
    CLT_WARN("device %s '%s' is probed in this process instead of in a child process, so a faulty driver may "
             "end this process: %s",
             found->desc.spec, found->desc.name, clt_error_text());
    clt_error_clear();
    clt_status status = ocl_ask_here(&asker);
    ocl_device_close(asker.device);
    return status;
}

/* Warns if building ahead failed but no question did. The cause may be that several programs are built in
 * parallel, which a training does too. */
static void tell_lost_ahead(const ocl_device_desc *desc, const ocl_capabilities *capabilities)
{
    for (int i = 0; i < capabilities->count; i++)
        if (capabilities->items[i].answer >= OCL_ANSWER_FAILED)
            return;
    CLT_WARN("device %s '%s': building several programs at the same time failed or took too long, so they "
             "were built one after the other; if a training fails or hangs while it builds programs, try "
             "CLTRAIN_BUILDERS=1",
             desc->spec, desc->name);
}

clt_status ocl_ask_children(const ocl_found *found, const ocl_asking_options *w,
                            ocl_capabilities *capabilities)
{
    prober v = {.desc = &found->desc,
                .mask = w->mask,
                .tests = w->tests,
                .share = OCL_ALL_SHARES,
                .style = w->style,
                .capabilities = capabilities};
    clt_child *kept[2] = {NULL, NULL};
    uint32_t emulated = 0;
    bool alone =
        !w->tests || !found->desc.is_cpu || clt_cpu_count() < 2 || ocl_capabilities_lost_test(capabilities);
    clt_status status = CLT_OK;
    for (int i = 0; i < OCL_ITEMS_MAX && status == CLT_OK && !v.done; i++) {
        status = alone ? run_child(&v) : run_two(&v, kept);
        alone = true;
        if (ocl_capabilities_refusal(capabilities, w->tests) != NULL)
            break;
    }
    if (status == CLT_OK && v.done && v.one_by_one)
        tell_lost_ahead(&found->desc, capabilities);
    clt_child_drop(v.child);
    keep_or_stop(found, status == CLT_OK && v.done, kept);
    if (status == CLT_EUNSUPPORTED)
        return ask_without_child(found, w, capabilities);
    CLT_TRY(status);
    if (!v.done && ocl_capabilities_refusal(capabilities, w->tests) == NULL)
        CLT_FAIL(CLT_EDEVICE, "asking device %s '%s': the child processes did not answer all questions",
                 found->desc.spec, found->desc.name);
    CLT_TRY(ocl_emulated_caps(&emulated));
    ocl_capabilities_note_asked(capabilities, w->mask, emulated, w->tests);
    return CLT_OK;
}
