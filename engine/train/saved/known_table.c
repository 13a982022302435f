/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the facts about a table that an earlier run saved in data.json, and sends them to all ranks. */
#include "engine/train/saved/known_table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/data/tables/table_columns.h"
#include "engine/files/fileio.h"

#define MOST_BYTES (64 << 20)

/* Reads data.json of a run or checkpoint; *from: its path. *text NULL: there is none. */
static clt_status read_saved(const char *folder, char **text, size_t *length, char **from)
{
    clt_checkpoint *saved = NULL;
    clt_status status = clt_checkpoint_peek(folder, &saved);
    if (status == CLT_OK)
        status = clt_checkpoint_text(saved, CLT_DATA_FACTS_FILE, text, length);
    if (status == CLT_OK && *text)
        status = clt_path_join(saved->path, CLT_DATA_FACTS_FILE, from);
    clt_checkpoint_close(saved);
    return status;
}

/* Reads the data.json beside a file of weights, unless another program wrote it. */
static clt_status read_beside(const char *file, char **text, size_t *length, char **from)
{
    const char *last = strrchr(file, '/');
    clt_str folder = {0};
    clt_str_append_n(&folder, last ? file : ".", last ? (size_t)(last - file) + (last == file) : 1);
    clt_status status = clt_str_check(&folder);
    if (status == CLT_OK)
        status = clt_path_join(folder.text, CLT_DATA_FACTS_FILE, from);
    clt_str_free(&folder);
    CLT_TRY(status);
    if (clt_file_exists(*from))
        CLT_TRY(clt_file_read(*from, false, MOST_BYTES, CLT_ECHECKPOINT, text, length));
    if (*text && !clt_data_facts_ours(*text, *length)) {
        free(*text);
        *text = NULL;
    }
    return CLT_OK;
}

static void read_text(const char *path, char **text, size_t *length, char **from)
{
    clt_status status =
        clt_is_directory(path) ? read_saved(path, text, length, from) : read_beside(path, text, length, from);
    if (status == CLT_OK)
        return;
    clt_error_clear(); /* an error of a checkpoint is reported when its weights are read */
    free(*text);
    *text = NULL;
}

static clt_status parse(const char *path, const char *text, int64_t length, const char *from,
                        clt_data_facts *facts)
{
    if (length == 0)
        return CLT_OK;
    return clt_fail_prefix(
        clt_data_facts_parse(text, (size_t)length, from ? from : CLT_DATA_FACTS_FILE, facts),
        "reading what '%s' knows of its table", path);
}

clt_status clt_known_beside(const char *path, clt_data_facts *facts)
{
    char *text = NULL, *from = NULL;
    size_t size = 0;
    memset(facts, 0, sizeof *facts);
    read_text(path, &text, &size, &from);
    clt_status status = parse(path, text, text ? (int64_t)size : 0, from, facts);
    free(text);
    free(from);
    return status;
}

clt_status clt_known_table(const clt_run_options *o, const char *resume, clt_data_facts *facts)
{
    const char *path = resume[0] ? resume : o->init;
    int rank = o->comm ? comm_describe(o->comm)->rank : 0,
        ranks = o->comm ? comm_describe(o->comm)->ranks : 1;
    char *text = NULL, *from = NULL;
    size_t size = 0;
    memset(facts, 0, sizeof *facts);
    if (!path || o->source || !clt_source_type_of(o->config)->regress ||
        (!resume[0] && !clt_table_standardizes(o->config)))
        return CLT_OK;
    if (rank == 0)
        read_text(path, &text, &size, &from);
    int64_t length = text ? (int64_t)size : 0;
    clt_status status = CLT_OK;
    if (ranks > 1)
        status = comm_broadcast(o->comm, &length, sizeof length, 0);
    if (status == CLT_OK && rank > 0)
        status = clt_alloc(&text, (size_t)length + 1, 1, "data.json");
    if (status == CLT_OK && ranks > 1 && length > 0)
        status = comm_broadcast(o->comm, text, length, 0);
    if (status == CLT_OK)
        status = parse(path, text, length, from, facts);
    free(text);
    free(from);
    return status;
}
