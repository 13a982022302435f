/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the facts about a table that an earlier run saved in data.json, and sends them to all ranks. */
#include "engine/train/saved/known_table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/data/open/data_paths.h"
#include "engine/data/tables/table_columns.h"
#include "engine/files/fileio.h"

#define MOST_BYTES (64 << 20)

/* Reads the data.json of an open checkpoint; *from: its path. *text NULL: there is none. */
static clt_status read_saved(const clt_checkpoint *saved, char **text, size_t *length, char **from)
{
    CLT_TRY(clt_checkpoint_text(saved, CLT_DATA_FACTS_FILE, text, length));
    return *text ? clt_path_join(saved->path, CLT_DATA_FACTS_FILE, from) : CLT_OK;
}

/* Reads the data.json beside a file of weights, unless another program wrote it. */
static clt_status read_beside(const char *file, char **text, size_t *length, char **from)
{
    const char *last = strrchr(file, '/');
    CLT_SCOPED(clt_str) folder = {0};
    clt_str_append_n(&folder, last ? file : ".", last ? (size_t)(last - file) + (last == file) : 1);
    CLT_TRY(clt_str_check(&folder));
    CLT_TRY(clt_path_join(folder.text, CLT_DATA_FACTS_FILE, from));
    if (clt_file_exists(*from))
        CLT_TRY(clt_file_read(*from, false, MOST_BYTES, CLT_ECHECKPOINT, text, length));
    if (*text && !clt_data_facts_ours(*text, *length)) {
        free(*text);
        *text = NULL;
    }
    return CLT_OK;
}

static clt_status read_weights(const char *path, char **text, size_t *length, char **from)
{
    CLT_SCOPED(clt_checkpoint) *saved = NULL;
    if (!clt_is_directory(path))
        return read_beside(path, text, length, from);
    CLT_TRY(clt_checkpoint_peek(path, &saved));
    return read_saved(saved, text, length, from);
}

/* Reads data.json of the checkpoint `saved`, or if `saved` is NULL, data.json of the run or file of weights
 * `path`. */
static void read_text(const clt_checkpoint *saved, const char *path, char **text, size_t *length, char **from)
{
    clt_status status =
        saved ? read_saved(saved, text, length, from) : read_weights(path, text, length, from);
    if (status == CLT_OK)
        return;
    clt_error_clear(); /* an error of a checkpoint is reported when its weights are read */
    free(*text);
    *text = NULL;
}

static clt_status parse(const char *path, const char *text, size_t length, const char *from,
                        clt_data_facts *facts)
{
    if (!text || length == 0)
        return CLT_OK;
    return clt_fail_prefix(clt_data_facts_parse(text, length, from ? from : CLT_DATA_FACTS_FILE, facts),
                           "reading what '%s' stores about its table", path);
}

clt_status clt_known_beside(const char *path, clt_data_facts *facts)
{
    CLT_FREED char *text = NULL, *from = NULL;
    size_t size = 0;
    memset(facts, 0, sizeof *facts);
    read_text(NULL, path, &text, &size, &from);
    return parse(path, text, size, from, facts);
}

/* facts->table stays NULL if nothing is known, or the data is not a table. */
static clt_status known_table(const clt_run_options *o, const clt_resumed *from, clt_data_facts *facts)
{
    bool resumes = from->path[0];
    const char *path = resumes ? from->name : o->init;
    const comm_info *ranks = o->comm ? comm_describe(o->comm) : NULL;
    CLT_FREED char *text = NULL, *file = NULL;
    size_t size = 0;
    if (!path || o->source || !clt_source_type_of(o->config)->regress ||
        (!resumes && !clt_table_standardizes(o->config)))
        return CLT_OK;
    if (!ranks || ranks->rank == 0)
        read_text(from->saved, path, &text, &size, &file);
    if (ranks && ranks->ranks > 1)
        CLT_TRY(comm_share_text(o->comm, &text, &size, "data.json"));
    return parse(path, text, size, file, facts);
}

clt_status clt_known_job(const clt_run_options *o, const clt_resumed *from, clt_job_kind kind, clt_job **job)
{
    bool resumes = from->path[0];
    CLT_SCOPED(clt_data_facts) known = {0};
    clt_job_data data = {.source = o->source,
                         .facts = o->saved && o->saved->has_facts ? &o->saved->facts : NULL,
                         .on_train = o->on_train,
                         .predicts = o->predicts,
                         .micro_batch = from->micro_batch,
                         .global_batch = from->global_batch};
    if (resumes)
        CLT_TRY(clt_data_paths_need(o->config, false, "resuming", from->name, NULL));
    CLT_TRY(known_table(o, from, &known));
    data.known = known.table ? &known : NULL;
    data.begins = known.table && !resumes;
    return clt_job_open(o->config, &data, o->comm ? comm_describe(o->comm)->ranks : 1, kind, job);
}
