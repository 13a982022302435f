/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ckpt ls: the checkpoints of a run, in its folder or in object storage. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/ckpt/ckpt.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/checkpoint/remote.h"
#include "engine/files/fileio.h"

typedef struct ls_row {
    int64_t step, bytes;
    int files;
    bool complete, best; /* best: the run's best checkpoint (checkpoint.best); known only for a run folder */
} ls_row;

typedef struct ls_list {
    ls_row *row;
    size_t count;
    bool folder; /* the list is of a run folder, so the best checkpoint is known */
} ls_list;

static void free_list(ls_list *list)
{
    free(list->row);
}
CLT_SCOPED_VALUE(ls_list, free_list)

static clt_status print_table(const ls_list *list)
{
    static const table_column columns[] = {
        {"step", 10, 0, 0, true}, {"files", 6, 0, 1, true}, {"size", 10, 0, 0, true}, {"", 10, 0, 0, false}};
    CLT_SCOPED(clt_str) out = {0};
    table t;
    table_make(&t, columns, 4, terminal_columns());
    table_head(&t, &out);
    for (size_t i = 0; i < list->count; i++) {
        const ls_row *row = &list->row[i];
        char step[32], files[16], size[32];
        const char *state = !row->complete ? "incomplete" : row->best ? "complete, best" : "complete";
        const char *cells[] = {step, files, console_bytes((uint64_t)row->bytes, size, sizeof size), state};
        snprintf(step, sizeof step, "%" PRId64, row->step);
        snprintf(files, sizeof files, "%d", row->files);
        table_row(&t, cells, &out);
    }
    CLT_TRY(clt_str_check(&out));
    table_print(&out);
    return CLT_OK;
}

static clt_status print_json(const ls_list *list)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 1);
    clt_jw_array(&w);
    for (size_t i = 0; i < list->count; i++) {
        const ls_row *row = &list->row[i];
        clt_jw_object(&w);
        clt_jw_kint(&w, "step", row->step);
        clt_jw_kint(&w, "files", row->files);
        clt_jw_kint(&w, "bytes", row->bytes);
        clt_jw_kbool(&w, "complete", row->complete);
        if (list->folder)
            clt_jw_kbool(&w, "best", row->best);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    return cmd_write_line("-", &out);
}

static clt_status list_remote(const char *address, const clt_s3_options *storage, ls_list *list)
{
    CLT_SCOPED(clt_remote) *remote = NULL;
    CLT_TRY(clt_remote_open(address, storage, &remote));
    CLT_TRY(clt_alloc(&list->row, remote->count + 1, sizeof *list->row, "a list of checkpoints"));
    for (; list->count < remote->count; list->count++) {
        const clt_remote_step *s = &remote->steps[list->count];
        list->row[list->count] =
            (ls_row){.step = s->step, .files = s->files, .bytes = (int64_t)s->bytes, .complete = s->complete};
    }
    return CLT_OK;
}

/* Counts the files of a folder step_N. */
static clt_status look_at(const char *folder, ls_row *row)
{
    CLT_SCOPED(clt_file_list) names = {0};
    const char *number = strrchr(folder, '_');
    *row = (ls_row){.step = number ? strtoll(number + 1, NULL, 10) : 0};
    CLT_TRY(clt_folder_names(folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        CLT_FREED char *path = NULL;
        struct stat info;
        CLT_TRY(clt_path_join(folder, names.name[i], &path));
        if (stat(path, &info) != 0)
            continue; /* a training that is still running has removed it */
        row->files++;
        row->bytes += (int64_t)info.st_size;
        row->complete = row->complete || strcmp(names.name[i], "manifest.json") == 0;
    }
    return CLT_OK;
}

static clt_status list_folder(const char *path, ls_list *list)
{
    CLT_SCOPED(clt_file_list) steps = {0};
    char best[1024] = "";
    list->folder = true;
    if (!clt_is_directory(path))
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain ckpt ls: '%s' is not a folder; name a run folder, or s3://BUCKET/PREFIX of a run "
                 "in object storage",
                 path);
    CLT_TRY(clt_checkpoint_list(path, &steps));
    if (steps.count == 0 && clt_checkpoint_named(path)) /* the path itself is a step_N */
        CLT_TRY(clt_file_list_add(&steps, strdup(path)));
    CLT_TRY(clt_alloc(&list->row, steps.count + 1, sizeof *list->row, "a list of checkpoints"));
    if (steps.count > 0 && clt_checkpoint_best(path, best, sizeof best) != CLT_OK)
        clt_error_clear(); /* the run has no best checkpoint */
    for (; list->count < steps.count; list->count++) {
        CLT_TRY(look_at(steps.name[list->count], &list->row[list->count]));
        list->row[list->count].best = strcmp(steps.name[list->count], best) == 0;
    }
    return CLT_OK;
}

clt_status ckpt_ls(cmd_context *context, int argc, char **argv)
{
    clt_s3_options storage = {.attempts = 0};
    CLT_SCOPED(ls_list) list = {0};
    bool json = false;
    const args_option options[] = {CKPT_STORAGE(storage), ARGS_JSON(json), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "ckpt ls", "RUN|s3://BUCKET/PREFIX", 1, 1, options,
        "Lists the checkpoints of a run, in its folder or in object storage. One is complete once\n"
        "it has its manifest, which is written last; the best one is chosen by checkpoint.best.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    const char *path = r.operands[0];
    CLT_TRY(clt_s3_is_address(path) ? list_remote(path, &storage, &list) : list_folder(path, &list));
    if (json)
        return print_json(&list);
    if (list.count == 0 && ckpt_unsaved(path))
        return ckpt_fail_unsaved(path);
    if (list.count == 0)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: there are no checkpoints", path);
    return print_table(&list);
}
