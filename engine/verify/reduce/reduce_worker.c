/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker of a reduction: runs one check whenever its parent requests it, each time with other numbers in
 * its case. Lines that it reads (reduce.c writes them):
 *     try N VALUE...             run the check with these N numbers; N 0: as the case is
 *     write HOW N VALUE...       the same, and write the folder of the last "folder" line. HOW is after: when
 *                                the check has failed; before: before each run, since the driver may crash;
 *                                refused: a call that fails is the fault
 *     folder PATH
 * Lines that it writes:
 *     device ...                 the device is open (clt_verify_say_device)
 *     slots KIND N, and for each number NAME=VALUE:LEAST:IS_SIZE
 *     verdict KIND STATUS ERROR LIMIT REASON
 *     error STATUS TEXT          the device cannot be used (any more) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/fileio.h"
#include "engine/host/child.h"
#include "engine/verify/reduce/reduce.h"
#include "engine/verify/reduce/repro.h"
#include "engine/verify/reduce/slots.h"

typedef struct worker {
    const clt_verify_options *options;
    ocl_device *device;
    const ocl_device_desc *desc;
    clt_slots wanted;
    char *folder;
    char how[16]; /* when to write the folder (HOW above); "": never */
    /* members of the current trial */
    clt_arena *arena;
    clt_capture capture;
    bool reported, listed;
    clt_status written; /* result of writing the folder */
    clt_error trouble;
    clt_verify_result result;
    char reason[1024];
} worker;

static clt_status say_slots(worker *w, clt_verify_case_kind kind, const clt_slots *slots)
{
    CLT_SCOPED(clt_str) line = {0};
    for (int i = 0; i < slots->count; i++)
        clt_str_printf(&line, " %s=%" PRId64 ":%" PRId64 ":%d", slots->slot[i].name, slots->slot[i].value,
                       slots->slot[i].least, slots->slot[i].is_size);
    CLT_TRY(clt_str_check(&line));
    w->listed = true;
    return clt_child_say("slots %d %d%s", (int)kind, slots->count, line.text ? line.text : "");
}

static clt_status alter(void *context, clt_verify_case_kind kind, void *copy)
{
    worker *w = context;
    if (!w->listed) {
        clt_slots slots;
        clt_slots_of(kind, copy, &slots);
        CLT_TRY(say_slots(w, kind, &slots));
    }
    return w->wanted.count > 0 ? clt_slots_put(kind, &w->wanted, w->arena, copy) : CLT_OK;
}

static void on_wrong(void *context, const clt_verify_wrong *wrong)
{
    worker *w = context;
    w->reported = true;
    if (w->how[0])
        clt_capture_wrong(&w->capture, wrong);
}

static void on_result(void *context, const clt_verify_result *result)
{
    worker *w = context;
    w->result = *result;
    snprintf(w->reason, sizeof w->reason, "%s", result->reason ? result->reason : "");
}

/* Creates the folder anew, so that files of an earlier run are not taken for the results of a run that could
 * not be written. */
static clt_status write_folder(worker *w)
{
    if (clt_is_directory(w->folder))
        CLT_TRY(clt_remove_tree(w->folder));
    if (w->capture.n_commands == 0 && w->capture.trouble == CLT_OK)
        CLT_FAIL(CLT_EUNSUPPORTED, "it ended before there were commands that a program could repeat");
    const clt_repro_about about = {.check = w->options->pattern,
                                   .device = w->desc->name,
                                   .platform = w->desc->platform,
                                   .refused = strcmp(w->how, "refused") == 0};
    CLT_TRY(clt_capture_slice(&w->capture));
    CLT_TRY(clt_mkdir_p(w->folder));
    return clt_repro_write(&w->capture, &about, w->folder);
}

static clt_status on_event(void *context, const ocl_exec_event *event)
{
    worker *w = context;
    if (!w->how[0] || w->reported) /* the run with the wrong values must stay captured */
        return CLT_OK;
    clt_capture_event(&w->capture, event);
    if (strcmp(w->how, "before") == 0) {
        w->written = write_folder(w);
        clt_error_take(w->written, &w->trouble);
    }
    return CLT_OK;
}

/* The result of the trial. A failure that the checker does not report as wrong values is "other". */
static const char *verdict_of(const worker *w, clt_status status)
{
    if (status != CLT_OK || w->result.status != CLT_OK)
        return "error";
    if (w->result.state == CLT_VERIFY_PASS)
        return "pass";
    return w->result.state == CLT_VERIFY_FAIL ? (w->reported ? "wrong" : "other") : "skip";
}

static clt_status run_trial(worker *w)
{
    clt_verify_summary summary;
    const clt_verify_reducer reducer = {alter, on_wrong, w};
    const ocl_exec_watcher watcher = {on_event, w};
    clt_verify_options own = *w->options;
    own.reducer = &reducer;
    own.result = on_result;
    own.context = w;
    w->result = (clt_verify_result){.state = CLT_VERIFY_SKIP};
    w->reported = false;
    clt_capture_free(&w->capture);
    w->written = CLT_OK;
    w->reason[0] = '\0';
    clt_arena_destroy(w->arena);
    w->arena = NULL;
    CLT_TRY(clt_arena_create(&w->arena));
    ocl_exec_watch(w->device, &watcher);
    clt_status status = clt_verify_on(w->device, &own, &summary);
    ocl_exec_watch(w->device, NULL);
    if (status != CLT_OK)
        snprintf(w->reason, sizeof w->reason, "%s", clt_error_text());
    clt_error_clear();
    const char *verdict = verdict_of(w, status);
    if (w->how[0] && strcmp(w->how, "before") != 0 &&
        (strcmp(verdict, "wrong") == 0 || strcmp(verdict, "error") == 0)) {
        w->written = write_folder(w);
        clt_error_take(w->written, &w->trouble);
    }
    if (w->written != CLT_OK)
        return clt_child_say("verdict unwritten %d 0 0 %s", (int)w->written, w->trouble.text);
    return clt_child_say("verdict %s %d %a %a %s", verdict,
                         (int)(status != CLT_OK ? status : w->result.status), w->result.error,
                         w->result.limit, w->reason);
}

/* Reads the numbers of a request: their count, then each number. */
static bool take_numbers(worker *w, const char *text)
{
    int used = 0;
    if (sscanf(text, "%d%n", &w->wanted.count, &used) != 1 || w->wanted.count < 0 ||
        w->wanted.count > CLT_SLOTS)
        return false;
    for (int i = 0; i < w->wanted.count; i++) {
        int more = 0;
        if (sscanf(text + used, "%" SCNd64 "%n", &w->wanted.slot[i].value, &more) != 1)
            return false;
        used += more;
    }
    return true;
}

static clt_status answer(worker *w, char *line)
{
    int at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "folder ", 7) == 0) {
        free(w->folder);
        w->folder = strdup(line + 7);
        return w->folder ? CLT_OK : CLT_ENOMEM;
    }
    w->how[0] = '\0';
    if (strncmp(line, "try ", 4) == 0)
        at = 4;
    else if (sscanf(line, "write %15s %n", w->how, &at) != 1 || at == 0 || !w->folder)
        CLT_FAIL(CLT_EINTERNAL, "reducing a check: the parent process wrote an invalid line");
    if (!take_numbers(w, line + at))
        CLT_FAIL(CLT_EINTERNAL, "reducing a check: the parent process wrote invalid numbers");
    return run_trial(w);
}

static clt_status serve(worker *w)
{
    CLT_FREED char *line = NULL;
    size_t size = 0;
    CLT_TRY(clt_verify_open(w->options, &w->device));
    w->desc = ocl_device_describe(w->device);
    CLT_TRY(clt_verify_say_device(w->desc));
    while (getline(&line, &size, stdin) > 0)
        CLT_TRY(answer(w, line));
    return CLT_OK;
}

clt_status clt_reduce_work(const clt_verify_options *options)
{
    worker w = {.options = options};
    CLT_TRY(clt_child_begin());
    clt_status status = serve(&w);
    clt_error error;
    clt_error_take(status, &error);
    clt_capture_free(&w.capture);
    clt_arena_destroy(w.arena);
    free(w.folder);
    ocl_device_close(w.device);
    if (status == CLT_OK)
        return CLT_OK;
    return clt_child_say("error %d %s", (int)status, error.text);
}
