/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the text files of a checkpoint: config, facts about the data, tokenizer. */
#include "engine/train/saved/saved_texts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/text.h"
#include "engine/data/facts/data_facts.h"
#include "engine/data/tokenizer/tokenizer.h"

/* The relative path from one absolute folder to another: "../../data"; "." if they are the same. */
static void way(const char *from, const char *to, clt_str *out)
{
    size_t same = 0, i = 0;
    for (; from[i] && from[i] == to[i]; i++)
        if (from[i] == '/')
            same = i;
    if ((!from[i] && (!to[i] || to[i] == '/')) || (from[i] == '/' && !to[i]))
        same = i;
    for (const char *at = from + same; *at; at++)
        if (*at == '/' && at[1])
            clt_str_append(out, out->length ? "/.." : "..");
    const char *rest = to + same;
    rest += *rest == '/';
    if (*rest)
        clt_str_printf(out, "%s%s", out->length ? "/" : "", rest);
    if (!out->length)
        clt_str_append(out, ".");
}

/* Stores a path, unless it cannot be represented exactly in JSON. */
static void keep(const char *path, char *out, size_t size)
{
    size_t left = strlen(path);
    if (left < size && clt_text_plain(path) == left)
        snprintf(out, size, "%s", path);
}

static void tell_folder(const char *checkpoints, clt_data_facts *facts)
{
    char here[PATH_MAX], run[PATH_MAX];
    CLT_SCOPED(clt_str) up = {0}, from = {0};
    if (!getcwd(here, sizeof here))
        return;
    keep(here, facts->folder, sizeof facts->folder);
    clt_str_printf(&up, "%s/..", checkpoints); /* the run folder exists, but checkpoints/ may not */
    const char *last = strrchr(checkpoints, '/');
    if (clt_str_check(&up) == CLT_OK && !realpath(up.text, run) && last) {
        up.length = 0;
        clt_str_printf(&up, "%.*s", (int)(last - checkpoints), checkpoints);
    }
    if (clt_str_check(&up) == CLT_OK && up.length && realpath(up.text, run)) {
        way(run, here, &from);
        if (clt_str_check(&from) == CLT_OK)
            keep(from.text, facts->folder_from_run, sizeof facts->folder_from_run);
    }
    clt_error_clear();
}

static void add_file(clt_saved_texts *t, const char *name, const clt_str *text)
{
    t->files[t->n_files++] = (clt_checkpoint_file){name, text->text, text->length};
}

static clt_status print_facts(const clt_run *run, const char *folder, clt_str *out)
{
    CLT_SCOPED(clt_data_facts) facts = {0};
    CLT_TRY(clt_data_facts_take(run->job->train_source, run->job->eval_source, &facts));
    tell_folder(folder, &facts);
    return clt_data_facts_print(&facts, out);
}

clt_status clt_saved_texts_make(const clt_run *run, const char *folder, clt_saved_texts *out)
{
    const clt_tokenizer *tokenizer = run->job->train_source->tokenizer;
    memset(out, 0, sizeof *out);
    CLT_TRY(print_facts(run, folder, &out->data));
    CLT_TRY(clt_config_print(run->options->config, true, &out->config));
    if (tokenizer && !clt_tokenizer_is_bytes(tokenizer))
        CLT_TRY(clt_tokenizer_print(tokenizer, &out->tokenizer));
    if (out->tokenizer.length && clt_tokenizer_has_roles(tokenizer))
        CLT_TRY(clt_tokenizer_print_config(tokenizer, 0, &out->roles));
    add_file(out, CLT_SAVED_CONFIG_FILE, &out->config);
    add_file(out, CLT_DATA_FACTS_FILE, &out->data);
    if (out->tokenizer.length)
        add_file(out, CLT_SAVED_TOKENIZER_FILE, &out->tokenizer);
    if (out->roles.length)
        add_file(out, CLT_SAVED_ROLES_FILE, &out->roles);
    return CLT_OK;
}

void clt_saved_texts_free(clt_saved_texts *texts)
{
    clt_str_free(&texts->config);
    clt_str_free(&texts->data);
    clt_str_free(&texts->tokenizer);
    clt_str_free(&texts->roles);
}
