/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a run's table: see known_table.h. */
#include "engine/train/saved/known_table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/fileio.h"
#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/data/table_columns.h"

#define MOST_BYTES (64 << 20)

/* data.json of a run or checkpoint, or of the folder that a file of weights lies in; *text NULL: there is none. */
static void read_text(const char *path, char **text, size_t *length)
{
    clt_checkpoint *saved = NULL;
    char *beside = NULL;
    *text = NULL;
    if (clt_is_directory(path)) {
        if (clt_checkpoint_peek(path, &saved) == CLT_OK)
            (void)clt_checkpoint_text(saved, CLT_DATA_FACTS_FILE, text, length);
        clt_checkpoint_close(saved);
    } else {
        const char *last = strrchr(path, '/');
        clt_str folder = {0};
        clt_str_append_n(&folder, last ? path : ".", last ? (size_t)(last - path) : 1);
        if (clt_str_check(&folder) == CLT_OK &&
            clt_path_join(folder.text, CLT_DATA_FACTS_FILE, &beside) == CLT_OK && clt_file_exists(beside))
            (void)clt_file_read(beside, false, MOST_BYTES, CLT_ECHECKPOINT, text, length);
        clt_str_free(&folder);
        free(beside);
    }
    clt_error_clear(); /* what is wrong with a checkpoint is said when its weights are read */
}

clt_status clt_known_table(const clt_run *run, const char *resume, clt_data_facts *facts)
{
    const clt_run_options *o = run->options;
    const char *path = resume[0] ? resume : o->init;
    char *text = NULL;
    size_t size = 0;
    memset(facts, 0, sizeof *facts);
    if (!path || o->source || !clt_source_type_of(o->config)->regress ||
        (!resume[0] && !clt_table_standardizes(o->config)))
        return CLT_OK;
    if (run->ranks.rank == 0)
        read_text(path, &text, &size);
    int64_t length = text ? (int64_t)size : 0;
    clt_status status = CLT_OK;
    if (run->ranks.ranks > 1)
        status = comm_broadcast(o->comm, &length, sizeof length, 0);
    if (status == CLT_OK && run->ranks.rank > 0)
        status = clt_alloc(&text, (size_t)length + 1, 1, "data.json");
    if (status == CLT_OK && run->ranks.ranks > 1 && length > 0)
        status = comm_broadcast(o->comm, text, length, 0);
    if (status == CLT_OK && length > 0)
        status = clt_data_facts_parse(text, (size_t)length, CLT_DATA_FACTS_FILE, facts);
    free(text);
    return clt_fail_prefix(status, "reading what '%s' knows of its table", path);
}
