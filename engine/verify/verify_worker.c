/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's side of checks in worker processes; verify_workers.c is the parent's side. A worker claims a
 * case before it runs the checks of the case, and names each check before it runs the check. Lines that a
 * worker writes:
 *     device ...                          the device is open (clt_verify_say_device)
 *     claim PASS INDEX SUBJECT CASE       may I run the checks of this case?
 *     begin INDEX NAME                    this check starts
 *     speed WHAT NS BYTES FLOPS           the check has timed this
 *     end STATE ERROR LIMIT MS BITS REASON the check has ended
 *     done MATCHED                        there is nothing left to do
 *     error STATUS TEXT                   no check can be run any more
 *
 * The parent answers a claim with "take FROM ROUND", the first index to run and the round, whose seed the
 * case gets, or "leave". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/host/child.h"
#include "engine/verify/verify_internal.h"

/* State that the callbacks share. */
typedef struct worker {
    clt_status said;   /* status of writing to the parent; after an error the parent no longer reads */
    char op_case[256]; /* the case claimed last, with its subject and pass */
    bool ours;         /* the parent's answer: run the case */
    uint64_t from;     /* first check to run */
    uint64_t round;    /* the round whose data the case gets */
    char *line;        /* the line that contains the answer */
    size_t size;
} worker;

/* Escapes newlines, which a reason may contain, because a message to the parent is one line. */
static void escape(const char *text, char *out, size_t size)
{
    size_t used = 0;
    for (; *text != '\0' && used + 3 < size; text++) {
        if (*text == '\n' || *text == '\\')
            out[used++] = '\\';
        out[used++] = *text == '\n' ? 'n' : *text;
    }
    out[used] = '\0';
}

clt_status clt_verify_say_device(const ocl_device_desc *d)
{
    return clt_child_say("device %d %" PRIu64 " %s\t%s\t%s\t%s\t%s", d->is_cpu, d->global_bytes, d->spec,
                         d->name, d->driver, d->version, d->platform);
}

bool clt_verify_take_device(const char *line, ocl_device_desc *out)
{
    char *const into[] = {out->spec, out->name, out->driver, out->version, out->platform};
    const size_t room[] = {sizeof out->spec, sizeof out->name, sizeof out->driver, sizeof out->version,
                           sizeof out->platform};
    int is_cpu, at = 0;
    *out = (ocl_device_desc){0};
    if (sscanf(line, "device %d %" SCNu64 " %n", &is_cpu, &out->global_bytes, &at) != 2 || at == 0)
        return false;
    out->is_cpu = is_cpu != 0;
    line += at;
    for (size_t i = 0; i < sizeof into / sizeof into[0]; i++) {
        size_t n = strcspn(line, "\t");
        snprintf(into[i], room[i], "%.*s", (int)n, line);
        line += n + (line[n] == '\t');
    }
    return true;
}

static void say_opened(void *context, const ocl_device_desc *device)
{
    worker *w = context;
    if (w->said == CLT_OK)
        w->said = clt_verify_say_device(device);
}

static clt_status ask(worker *w, const clt_verify_claim *claim)
{
    w->ours = false;
    CLT_TRY(clt_child_say("claim %d %" PRIu64 " %s %s", claim->pass, claim->index, claim->subject,
                          claim->op_case));
    if (getline(&w->line, &w->size, stdin) <= 0)
        CLT_FAIL(CLT_EINTERRUPTED, "the parent process does not answer");
    w->ours = sscanf(w->line, "take %" SCNu64 " %" SCNu64, &w->from, &w->round) == 2;
    return CLT_OK;
}

static bool claim_case(void *context, clt_verify_claim *claim)
{
    worker *w = context;
    char op_case[sizeof w->op_case];
    snprintf(op_case, sizeof op_case, "%d %s %s", claim->pass, claim->subject, claim->op_case);
    if (w->said == CLT_OK && strcmp(op_case, w->op_case) != 0) {
        memcpy(w->op_case, op_case, sizeof op_case);
        w->said = ask(w, claim);
    }
    claim->round = w->round;
    return w->said == CLT_OK && w->ours && claim->index >= w->from;
}

static void say_begun(void *context, uint64_t index, const char *name)
{
    worker *w = context;
    if (w->said == CLT_OK)
        w->said = clt_child_say("begin %" PRIu64 " %s", index, name);
}

static void say_result(void *context, const clt_verify_result *result)
{
    worker *w = context;
    char reason[4096];
    for (int i = 0; i < result->n_speeds && w->said == CLT_OK; i++) {
        const clt_verify_speed *s = &result->speeds[i];
        w->said = clt_child_say("speed %s %a %a %a", s->what, s->ns, s->bytes, s->flops);
    }
    escape(result->reason ? result->reason : "", reason, sizeof reason);
    if (w->said == CLT_OK)
        w->said = clt_child_say("end %d %a %a %a %" PRIx64 " %s", (int)result->state, result->error,
                                result->limit, result->ms, result->bits, reason);
}

clt_status clt_verify_work(const clt_verify_options *options)
{
    worker w = {.said = CLT_OK};
    clt_verify_options own = *options;
    clt_verify_summary summary;
    char text[4096];
    CLT_TRY(clt_child_begin());
    own.opened = say_opened;
    own.claim = claim_case;
    own.begun = say_begun;
    own.result = say_result;
    own.context = &w;
    clt_status status = clt_verify_run(&own, &summary);
    free(w.line);
    CLT_TRY(w.said); /* the parent no longer reads */
    if (status == CLT_OK || status == CLT_ECHECK || (status == CLT_EUSAGE && summary.matched == 0)) {
        clt_error_clear();
        return clt_child_say("done %" PRIu64, summary.matched);
    }
    escape(clt_error_text(), text, sizeof text);
    clt_error_clear(); /* the parent reports it */
    return clt_child_say("error %d %s", (int)status, text);
}
