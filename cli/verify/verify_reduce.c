/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain verify --reduce: selects the failing checks to reduce and reports the results.
 * engine/verify/reduce makes the search. */
#include "cli/verify/verify_reduce.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/screen/terminal.h"
#include "cli/verify/verify_trajectory.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/verify/reduce/reduce.h"

#define MOST_FOLDERS 16 /* most reductions of a run: one bug of a compiler may break every op */

clt_status verify_reduce_possible(const char *folder)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_TRY(clt_mkdir_possible(folder));
    if (!clt_is_directory(folder))
        return CLT_OK;
    CLT_TRY(clt_folder_names(folder, &names));
    if (names.count > 0)
        CLT_FAIL(CLT_ESTORAGE, "cltrain verify: --reduce %s: the folder is not empty; name another one",
                 folder);
    return CLT_OK;
}

/* Length of the subject in the name of a check: the part before the first dot. */
static size_t subject(const char *name)
{
    return strcspn(name, ".");
}

/* True if an earlier failing check of the device has the same subject and has been reduced. */
static bool is_covered(const verify_report *report, const bool *written, size_t at)
{
    const verify_item *item = &report->items[at];
    size_t n = subject(item->name);
    for (size_t i = 0; i < at; i++)
        if (written[i] && report->items[i].run == item->run && subject(report->items[i].name) == n &&
            strncmp(report->items[i].name, item->name, n) == 0)
            return true;
    return false;
}

/* Makes the name of a check's folder: the check's name, in characters that a shell does not interpret. */
static void folder_name(const verify_item *item, bool several, char *out, size_t size)
{
    if (several)
        snprintf(out, size, "%s-%s", item->device, item->name);
    else
        snprintf(out, size, "%s", item->name);
    out[strcspn(out, "/")] = '\0'; /* cuts off "/mode", which is always the same */
    for (char *c = out; *c; c++)
        if (strchr("[]:*?'\"\\ ", *c))
            *c = *c == ']' ? '\0' : '-';
}

static clt_status reduce_one(const verify_item *item, const clt_verify_options *options, double limit,
                             const char *folder, bool several, bool *written)
{
    CLT_FREED char *path = NULL;
    clt_reduced reduced;
    char name[256];
    folder_name(item, several, name, sizeof name);
    CLT_TRY(clt_path_join(folder, name, &path));
    const clt_reduce_options how = {
        .check = {.pattern = item->name,
                  .modes = CLT_VERIFY_CORRECT,
                  .device_spec = item->device,
                  .caps_mask = options->caps_mask,
                  .small = options->small,
                  .own_forms = options->own_forms,
                  .seed = options->seed + (item->round > 0 ? item->round - 1 : 0)},
        .limit = limit,
        .folder = path,
        .repeat = item->repeat ? item->repeat : ""};
    CLT_TRY(clt_reduce(&how, &reduced));
    *written = reduced.written;
    if (reduced.written)
        terminal_say("reduced: %s in %d trial%s%s%s\n         %s\n         wrote %s\n", item->name,
                     reduced.trials, CLT_PLURAL(reduced.trials), reduced.shape[0] ? " to " : "",
                     reduced.shape, reduced.reason, path);
    else
        terminal_say("not reduced: %s: %s\n", item->name, reduced.reason);
    fflush(stdout);
    return CLT_OK;
}

clt_status verify_reduce(const verify_report *report, const clt_verify_options *options, double limit,
                         const char *folder)
{
    CLT_FREED bool *written = NULL;
    int folders = 0;
    CLT_TRY(clt_alloc(&written, report->count, sizeof *written, "reduced checks"));
    for (size_t i = 0; i < report->count; i++) {
        const verify_item *item = &report->items[i];
        if (!verify_is_failure(item->state) || is_covered(report, written, i))
            continue;
        if (folders == MOST_FOLDERS) {
            terminal_say("--reduce: %d folders are enough; name other checks by -t\n", folders);
            break;
        }
        if (verify_is_training(item->name)) {
            terminal_say("not reduced: %s is a training, and it is not known which of its kernels is wrong\n",
                         item->name);
            continue;
        }
        CLT_TRY(reduce_one(item, options, limit, folder, report->n_devices > 1, &written[i]));
        folders += written[i];
    }
    return CLT_OK;
}
