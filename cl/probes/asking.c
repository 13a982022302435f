/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a device all questions in this process. In a child process it also announces every question to the
 * parent before asking it, sends each answer immediately, and builds the programs of many questions in
 * parallel before it asks them. */
#include "cl/probes/asking.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/device/matrix_unit.h"
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/host/child.h"

static const ocl_self_test_set *tests;

void ocl_self_tests_register(const ocl_self_test_set *set)
{
    tests = set;
}

/* The questions and self-tests of group i: group 0 is for every device, and each matrix unit has a further
 * group. False if there is no group i. */
static bool group_at(int i, const ocl_question **questions, const ocl_self_test **self_tests)
{
    const ocl_matrix_unit *unit = i > 0 ? ocl_matrix_units[i - 1] : NULL;
    *questions = unit ? unit->questions : ocl_questions;
    *self_tests = unit ? unit->tests : tests ? tests->tests : NULL;
    return i == 0 || unit != NULL;
}

/* --- asking in this process --- */

typedef struct asking {
    ocl_asker *asker; /* `asker->device` is NULL if it must be opened for the next question */
    char *extensions;
    uint32_t emulated;
    ocl_ahead built; /* the last phase for which programs were built ahead */
} asking;

/* The device's description with the answers so far. */
static ocl_device_desc desc_now(const asking *a)
{
    const ocl_capabilities *capabilities = a->asker->capabilities;
    ocl_device_desc desc = a->asker->found->desc;
    desc.caps = ocl_caps_with_emulated(ocl_capabilities_caps(capabilities, a->emulated, a->asker->tests),
                                       a->emulated) &
                a->asker->mask;
    desc.emulated_caps = a->emulated & desc.caps;
    ocl_capabilities_sizes(capabilities, &desc);
    return desc;
}

/* Closes the device after a failure, because the context may be unusable. The next question gets a new
 * one. */
static void forget_device(asking *a)
{
    ocl_device_close(a->asker->device);
    a->asker->device = NULL;
}

/* Turns a failed call into an answer. Control characters in the reason become spaces, so that it has one
 * line. */
static void take_failure(clt_status status, ocl_item *item)
{
    bool refused = status == CLT_EBUILD || status == CLT_EUNSUPPORTED;
    item->answer = refused ? OCL_ANSWER_REFUSED : OCL_ANSWER_FAILED;
    snprintf(item->reason, sizeof item->reason, "%s", clt_error_text());
    for (char *c = item->reason; *c != '\0'; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    clt_error_clear();
}

static clt_status finish_item(asking *a, ocl_item *item, clt_status status)
{
    if (status == CLT_ENOMEM)
        return status;
    if (status != CLT_OK)
        take_failure(status, item);
    if (ocl_answer_is_loss(item->answer))
        forget_device(a);
    CLT_TRY(ocl_capabilities_set(a->asker->capabilities, item));
    return a->asker->ended ? a->asker->ended(item) : CLT_OK;
}

static clt_status begin_item(asking *a, ocl_item *item)
{
    if (a->asker->begun)
        CLT_TRY(a->asker->begun(item));
    if (a->asker->device == NULL)
        CLT_TRY(ocl_device_open_bare(a->asker->found, false, &a->asker->device));
    a->asker->device->desc = desc_now(a);
    return CLT_OK;
}

/* Whether the question has no answer yet. A refused device gets no further questions. */
static bool is_open_question(const asking *a, const char *name)
{
    return ocl_capabilities_find(a->asker->capabilities, name) == NULL &&
           ocl_capabilities_refusal(a->asker->capabilities, a->asker->tests) == NULL;
}

/* A refused build becomes the answer NO, which is no loss, if the device does not announce the
 * capability. */
static void judge_refusal(const asking *a, const ocl_question *q, ocl_item *item)
{
    bool offered =
        q->cap != OCL_CAP_FP16 || (a->extensions != NULL && strstr(a->extensions, "cl_khr_fp16") != NULL);
    if ((q->cap & OCL_CAPS_UNITS) && a->asker->found->desc.compute_capability == 0)
        offered = false;
    if (q->parameter != 0)
        offered = false; /* no driver promises sizes above what it reports */
    if (item->answer == OCL_ANSWER_REFUSED && !offered)
        item->answer = OCL_ANSWER_NO;
}

/* Whether the failure may be temporary and has nothing to do with the question. */
static bool may_be_temporary(clt_status status)
{
    return status != CLT_OK && status != CLT_ENOMEM && status != CLT_EBUILD && status != CLT_EUNSUPPORTED;
}

/* The outcome of a question that failed once and was tried again. If both tries failed, the first reason is
 * kept, because the second may only say that the device fails. Where failures last as long as the process,
 * the second try proves nothing, and another process must continue. */
static clt_status second_try(asking *a, clt_status status, const clt_error *first, clt_status second)
{
    bool lasts = a->asker->renewed && (a->asker->found->desc.quirks & OCL_QUIRK_LASTING_FAILURES) != 0;
    if (second == CLT_OK || (!lasts && !may_be_temporary(second)))
        return second;
    clt_error_clear();
    (void)clt_error_put(first);
    a->asker->must_be_replaced = lasts;
    return status;
}

static clt_status put_question(asking *a, ocl_probe_state *state, ocl_item *item)
{
    CLT_TRY(begin_item(a, item));
    state->device = a->asker->device;
    item->reason[0] = '\0';
    clt_status status = state->question->ask(state, item);
    if (may_be_temporary(status))
        forget_device(a);
    return status;
}

/* The share of a question. Two children ask one share each, which take about equally long: one share is
 * questions about lane-style code and a few others. No question depends on an answer of the other share. */
static int share_of(const ocl_question *q)
{
    const uint32_t second =
        OCL_CAP_WIDE_VECTORS | OCL_CAP_NONTEMPORAL | OCL_CAP_PREFETCH | OCL_CAP_INT64_ATOMICS;
    return (q->cap & second) != 0;
}

static bool is_mine(const asking *a, int share)
{
    return a->asker->share == OCL_ALL_SHARES || a->asker->share == share;
}

/* Whether the question has no answer yet and belongs to this process's share and mask. */
static bool is_left(const asking *a, const ocl_question *q)
{
    return is_mine(a, share_of(q)) && is_open_question(a, q->name) &&
           (q->cap == 0 || (q->cap & a->asker->mask) != 0);
}

static clt_status ask_question(asking *a, const ocl_question *q, bool *asked)
{
    ocl_item item = {.drops = q->cap};
    snprintf(item.name, sizeof item.name, "%s", q->name);
    if (!is_left(a, q))
        return CLT_OK;
    ocl_device_desc desc = desc_now(a);
    ocl_probe_state state = {q,         NULL,          &desc,          a->asker->capabilities,
                             desc.caps, a->extensions, a->asker->style};
    if (q->wanted != NULL && !q->wanted(&state, item.reason, sizeof item.reason)) {
        item.answer = OCL_ANSWER_NO;
        return item.reason[0] != '\0' ? finish_item(a, &item, CLT_OK) : CLT_OK;
    }
    *asked = true;
    clt_status status = put_question(a, &state, &item);
    if (may_be_temporary(status)) { /* try once more in a new context */
        clt_error first;
        clt_error_take(status, &first);
        status = second_try(a, status, &first, put_question(a, &state, &item));
    }
    if (status != CLT_OK && status != CLT_ENOMEM) {
        take_failure(status, &item);
        judge_refusal(a, q, &item);
        status = CLT_OK;
    }
    return finish_item(a, &item, status);
}

static clt_status put_test(asking *a, const ocl_self_test *t, bool *right, ocl_item *item)
{
    CLT_TRY(begin_item(a, item));
    clt_status status = tests->run(t, a->asker->device, right, item->reason, sizeof item->reason);
    if (may_be_temporary(status))
        forget_device(a);
    return status;
}

static bool is_test_left(const asking *a, const ocl_self_test *t)
{
    char name[OCL_ITEM_NAME];
    ocl_device_desc desc = desc_now(a);
    snprintf(name, sizeof name, OCL_TEST_PREFIX "%s", t->name);
    return is_mine(a, t->share) && is_open_question(a, name) && (t->drops & ~desc.caps) == 0 &&
           tests->wanted(t, &desc);
}

static clt_status ask_test(asking *a, const ocl_self_test *t, bool *asked)
{
    ocl_item item = {.drops = t->drops, .answer = OCL_ANSWER_YES};
    bool right = false;
    snprintf(item.name, sizeof item.name, OCL_TEST_PREFIX "%s", t->name);
    if (!is_test_left(a, t))
        return CLT_OK;
    *asked = true;
    clt_status status = put_test(a, t, &right, &item);
    if (may_be_temporary(status)) {
        clt_error first;
        clt_error_take(status, &first);
        status = second_try(a, status, &first, put_test(a, t, &right, &item));
    }
    if (status == CLT_OK && !right)
        item.answer = OCL_ANSWER_WRONG;
    if (status == CLT_OK && right)
        item.reason[0] = '\0';
    return finish_item(a, &item, status);
}

/* --- building ahead --- */

/* Most of the time of all questions is spent in compilers, so the programs of the remaining questions are
 * built in parallel before the first of them is asked: the programs of probes when the first answer has
 * shown what kind of device it is, the programs of self-tests when all probes are answered. Only the building
 * moves; if the compiler refuses a program, its question builds it again and gets the failure. A capability
 * is assumed to be present until a probe disproves it, so some programs are built for questions that turn
 * out to be unnecessary. Of sizes that are tried in ascending order, only the smallest one's program is
 * built. */

/* Records the programs of a question, which is asked as if the answers of `guess` were known, and adds the
 * likely answer to `guess`. */
static clt_status note_question(asking *guess, const ocl_question *q)
{
    ocl_asker *asker = guess->asker;
    ocl_item item = {.drops = q->cap};
    if (!is_left(guess, q))
        return CLT_OK;
    ocl_device_desc desc = desc_now(guess);
    ocl_probe_state state = {q,         asker->device,     &desc,       asker->capabilities,
                             desc.caps, guess->extensions, asker->style};
    if (q->wanted != NULL && !q->wanted(&state, item.reason, sizeof item.reason))
        return CLT_OK;
    asker->device->desc = desc;
    (void)q->ask(&state, &item);
    clt_error_clear();
    item = (ocl_item){
        .drops = q->cap, .answer = OCL_ANSWER_YES, .value = (uint64_t)q->parameter << 10 /* a size */};
    snprintf(item.name, sizeof item.name, "%s", q->name);
    bool likely = q->cap != 0 && q->cap != OCL_CAP_WIDE_VECTORS; /* GPUs do not have it */
    return likely ? ocl_capabilities_set(asker->capabilities, &item) : CLT_OK;
}

static clt_status note_questions(const asking *a)
{
    asking guess = *a;
    ocl_asker guesser = *a->asker;
    CLT_FREED ocl_capabilities *capabilities = NULL;
    CLT_TRY(clt_alloc(&capabilities, 1, sizeof *capabilities, "answers"));
    *capabilities = *guesser.capabilities;
    guesser.capabilities = capabilities;
    guess.asker = &guesser;
    const ocl_question *q;
    const ocl_self_test *t;
    for (int i = 0; group_at(i, &q, &t); i++)
        for (; q->name != NULL; q++)
            CLT_TRY(note_question(&guess, q));
    return CLT_OK;
}

static void note_tests(const asking *a)
{
    a->asker->device->desc = desc_now(a);
    const ocl_question *q;
    const ocl_self_test *t;
    for (int i = 0; group_at(i, &q, &t); i++)
        for (; t->name != NULL; t++)
            if (is_test_left(a, t))
                tests->note(t, a->asker->device);
}

/* The asker and the phase, for progress reports of builds. */
typedef struct ahead_phase {
    const ocl_asker *asker;
    ocl_ahead phase;
} ahead_phase;

static void tell_progress(void *context, int done, int total, const char *what)
{
    const ahead_phase *p = context;
    (void)what;
    if (p->asker->ahead(p->phase, done, total) != CLT_OK)
        clt_error_clear(); /* the parent has ended; sending the next answer will fail too */
}

static clt_status build_phase(asking *a, ocl_ahead phase)
{
    ocl_asker *asker = a->asker;
    ahead_phase progress = {asker, phase};
    clt_status status = CLT_OK;
    if (asker->device == NULL)
        CLT_TRY(ocl_device_open_bare(asker->found, false, &asker->device));
    if (ocl_build_threads(asker->device, SIZE_MAX) < 2)
        return CLT_OK;
    CLT_TRY(ocl_programs_gather(asker->device));
    if (phase == OCL_AHEAD_TESTS)
        note_tests(a);
    else
        status = note_questions(a);
    clt_status built = ocl_programs_build_gathered(asker->device, tell_progress, &progress);
    return status != CLT_OK ? status : built;
}

/* Builds the programs of a phase ahead, except on CPU devices, where two children ask in parallel
 * instead. */
static clt_status build_ahead(asking *a, ocl_ahead phase)
{
    ocl_asker *asker = a->asker;
    bool nothing = phase == OCL_AHEAD_TESTS && (!asker->tests || tests == NULL);
    if (asker->ahead == NULL || a->built >= phase || nothing || asker->must_be_replaced ||
        asker->found->desc.is_cpu || ocl_capabilities_refusal(asker->capabilities, asker->tests) != NULL)
        return CLT_OK;
    a->built = phase;
    CLT_TRY(asker->ahead(phase, 0, 0));
    if (build_phase(a, phase) == CLT_OK)
        return asker->ahead(OCL_AHEAD_NOTHING, 0, 0);
    CLT_DEBUG("building programs ahead: %s", clt_error_text());
    clt_error_clear();
    asker->must_be_replaced = true;
    return CLT_OK;
}

/* Each round asks the questions that have become necessary by the answers so far. For example, if one kind
 * of matrix instruction fails its self-test, the next older one is tried. */
static clt_status ask_rounds(asking *a)
{
    bool asked = true;
    while (asked && !a->asker->must_be_replaced) {
        const ocl_question *q;
        const ocl_self_test *t;
        asked = false;
        for (int i = 0; group_at(i, &q, &t); i++)
            for (; q->name != NULL && !a->asker->must_be_replaced; q++) {
                CLT_TRY(ask_question(a, q, &asked));
                CLT_TRY(build_ahead(a, OCL_AHEAD_PROBES));
            }
        CLT_TRY(build_ahead(a, OCL_AHEAD_TESTS));
        for (int i = 0; a->asker->tests && tests != NULL && group_at(i, &q, &t); i++)
            for (; t->name != NULL && !a->asker->must_be_replaced; t++)
                CLT_TRY(ask_test(a, t, &asked));
    }
    return CLT_OK;
}

clt_status ocl_ask_here(ocl_asker *asker)
{
    CLT_FREED char *extensions = NULL;
    uint32_t emulated;
    CLT_TRY(ocl_emulated_caps(&emulated));
    CLT_TRY(ocl_device_extensions(asker->found->id, &extensions));
    asking a = {.asker = asker, .extensions = extensions, .emulated = emulated};
    CLT_TRY(ask_rounds(&a));
    ocl_capabilities_note_asked(asker->capabilities, asker->mask, emulated, asker->tests);
    return CLT_OK;
}

/* --- the child's side --- */

static clt_status say_begun(const ocl_item *item)
{
    return clt_child_say("begin %s %08" PRIx32, item->name, item->drops);
}

static clt_status say_ended(const ocl_item *item)
{
    return clt_child_say("end %s %d %08" PRIx32 " %" PRIu64 " %s", item->name, (int)item->answer, item->drops,
                         item->value, item->reason);
}

static clt_status say_ahead(ocl_ahead phase, int done, int total)
{
    return clt_child_say("ahead %d %d %d", (int)phase, done, total);
}

/* "item=1:drops:value,...", which parse_have parses */
void ocl_asking_have(const ocl_capabilities *capabilities, clt_str *out)
{
    for (int i = 0; i < capabilities->count; i++) {
        const ocl_item *item = &capabilities->items[i];
        clt_str_printf(out, "%s%s=%d:%08" PRIx32 ":%" PRIu64, i ? "," : "", item->name, (int)item->answer,
                       item->drops, item->value);
    }
}

static clt_status parse_have(const char *text, ocl_capabilities *capabilities)
{
    while (*text != '\0') {
        ocl_item item = {0};
        char entry[128];
        int answer = 0;
        size_t length = strcspn(text, ",");
        snprintf(entry, sizeof entry, "%.*s", (int)length, text);
        if (sscanf(entry, "%39[^=]=%d:%" SCNx32 ":%" SCNu64, item.name, &answer, &item.drops, &item.value) !=
                4 ||
            answer <= 0 || answer >= OCL_ANSWER_COUNT)
            CLT_FAIL(CLT_EUSAGE, "'%s' is not a known answer", entry);
        item.answer = (ocl_answer)answer;
        CLT_TRY(ocl_capabilities_set(capabilities, &item));
        text += length + (text[length] == ',');
    }
    return CLT_OK;
}

/* Answers a line "ask": sends the device's key, then the answers to the open questions. */
static clt_status answer_ask(ocl_asker *asker, const char *fields)
{
    char style[16], text[CLT_HASH64_TEXT];
    int tests_too, one_by_one, have = 0;
    if (sscanf(fields, "%15s %" SCNx32 " %d %d %d\t%n", style, &asker->mask, &asker->share, &tests_too,
               &one_by_one, &have) != 5 ||
        have == 0 || !ocl_style_from_name(style, &asker->style))
        CLT_FAIL(CLT_EUSAGE, "'%s' are no questions", fields);
    if (one_by_one)
        setenv("CLTRAIN_BUILDERS", "1", 1);
    asker->ahead = one_by_one ? NULL : say_ahead;
    asker->tests = tests_too != 0;
    CLT_TRY(parse_have(fields + have, asker->capabilities));
    CLT_TRY(ocl_capabilities_key(&asker->found->desc, asker->style, &asker->capabilities->key));
    CLT_TRY(clt_child_say("device %s", clt_hash64_text(asker->capabilities->key, text)));
    CLT_TRY(ocl_ask_here(asker));
    return clt_child_say(asker->must_be_replaced ? "replace me" : "done");
}

/* Switches the child from answering questions to building, which needs an open device. */
static clt_status build(ocl_asker *asker)
{
    if (asker->device == NULL)
        CLT_TRY(ocl_device_open_bare(asker->found, false, &asker->device));
    asker->device->desc = asker->found->desc;
    return ocl_builder_serve(asker->device);
}

static clt_status obey(ocl_asker *asker)
{
    CLT_FREED char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "open") == 0)
            return build(asker);
        if (strncmp(line, "ask\t", 4) != 0)
            CLT_FAIL(CLT_EUSAGE, "'%s' was sent to a child process that has not opened its device", line);
        CLT_TRY(answer_ask(asker, line + 4));
    }
    return CLT_OK;
}

clt_status ocl_asking_serve(const char *spec)
{
    CLT_FREED ocl_capabilities *capabilities = NULL;
    ocl_found found;
    ocl_asker asker = {.found = &found, .begun = say_begun, .ended = say_ended, .renewed = true};
    CLT_TRY(clt_child_begin());
    CLT_TRY(clt_alloc(&capabilities, 1, sizeof *capabilities, "answers"));
    asker.capabilities = capabilities;
    clt_status status = ocl_find_in_child(spec, &found);
    status = status ? status : obey(&asker);
    if (status != CLT_OK)
        (void)clt_child_say("error %d %s", (int)status, clt_error_text());
    ocl_device_close(asker.device);
    return status;
}
