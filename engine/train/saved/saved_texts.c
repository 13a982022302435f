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
#include "engine/base/thread.h"
#include "engine/data/facts/data_facts.h"
#include "engine/data/open/data_paths.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

#define PRINTS_SECONDS 10.0 /* how long checkpoints wait for the fingerprints of remote data */

/* Fingerprints of remote data, which a thread computes during the training, because much of the data must be
 * downloaded for them. */
struct clt_saved_prints {
    const clt_run *run;
    char *folder;
    clt_thread *thread;
    atomic_int stopped;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double left; /* seconds that checkpoints may still wait, all of them together */
    bool over;   /* the thread has finished */
    bool known;  /* the fingerprints below are set */
    char train[CLT_HASH64_TEXT], eval[CLT_HASH64_TEXT];
};

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

/* Prints the facts about the data. The caller gives the fingerprints of remote data; "": not known. */
static clt_status print_facts(const clt_run *run, const char *folder, const char *print,
                              const char *eval_print, clt_str *out)
{
    CLT_SCOPED(clt_data_facts) facts = {0};
    const clt_source *train = run->job->train_source, *eval = run->job->eval_source;
    CLT_TRY(clt_data_facts_take(train, eval, &facts));
    if (train->remote)
        memcpy(facts.fingerprint, print, sizeof facts.fingerprint);
    if (eval && eval->remote)
        memcpy(facts.eval_fingerprint, eval_print, sizeof facts.eval_fingerprint);
    if (!clt_data_paths_listed(run->options->config, facts.listed))
        facts.listed[0] = '\0';
    tell_folder(folder, &facts);
    return clt_data_facts_print(&facts, out);
}

/* --- fingerprints of remote data --- */

static void *compute_prints(void *context)
{
    struct clt_saved_prints *p = context;
    const clt_job *job = p->run->job;
    clt_remote_wait_until(&p->stopped);
    clt_status status = clt_source_read_fingerprint(job->train_source, p->train);
    if (status == CLT_OK && job->eval_source)
        status = clt_source_read_fingerprint(job->eval_source, p->eval);
    /* no error is reported here: if bytes are missing, the training fails when it reads them, and says why */
    clt_error_clear();
    pthread_mutex_lock(&p->lock);
    p->known = status == CLT_OK && !atomic_load(&p->stopped);
    p->over = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void stop_prints(clt_saved_texts *t)
{
    if (!t->prints)
        return;
    atomic_store(&t->prints->stopped, 1);
    clt_thread_join(t->prints->thread);
    pthread_cond_destroy(&t->prints->changed);
    pthread_mutex_destroy(&t->prints->lock);
    free(t->prints->folder);
    free(t->prints);
    t->prints = NULL;
}

static clt_status start_prints(const clt_run *run, const char *folder, clt_saved_texts *t)
{
    CLT_TRY(clt_alloc(&t->prints, 1, sizeof *t->prints, "fingerprints"));
    t->prints->run = run;
    t->prints->left = PRINTS_SECONDS;
    pthread_mutex_init(&t->prints->lock, NULL);
    pthread_cond_init(&t->prints->changed, NULL);
    t->prints->folder = strdup(folder);
    clt_status status = t->prints->folder
                            ? clt_thread_start(&t->prints->thread, "fingerprints", compute_prints, t->prints)
                            : CLT_ENOMEM;
    if (status != CLT_OK)
        stop_prints(t);
    return status;
}

static bool await_prints(struct clt_saved_prints *p)
{
    const atomic_int *stop = p->run->options->stop;
    CLT_LOCKED(&p->lock);
    while (!p->over && p->left > 0 && !(stop && atomic_load(stop))) {
        double begin = clt_now();
        (void)clt_cond_wait_turn(&p->changed, &p->lock);
        p->left -= clt_now() - begin;
    }
    return p->known;
}

clt_status clt_saved_texts_update(clt_saved_texts *t)
{
    CLT_SCOPED(clt_str) data = {0};
    if (!t->prints || !await_prints(t->prints))
        return CLT_OK;
    CLT_TRY(print_facts(t->prints->run, t->prints->folder, t->prints->train, t->prints->eval, &data));
    stop_prints(t);
    clt_str_free(&t->data);
    t->data = data;
    data = (clt_str){0};
    for (int i = 0; i < t->n_files; i++)
        if (strcmp(t->files[i].name, CLT_DATA_FACTS_FILE) == 0)
            t->files[i] = (clt_checkpoint_file){CLT_DATA_FACTS_FILE, t->data.text, t->data.length};
    return CLT_OK;
}

static bool is_unknown(const clt_source *source, const char *print)
{
    return source && source->remote && source->type->fingerprint && !print[0];
}

/* --- all texts --- */

clt_status clt_saved_texts_make(const clt_run *run, const char *folder, clt_saved_texts *out)
{
    const clt_tokenizer *tokenizer = run->job->train_source->tokenizer;
    memset(out, 0, sizeof *out);
    const clt_continuation *c = &run->continuation; /* resuming may have computed fingerprints */
    CLT_TRY(print_facts(run, folder, c->fingerprint, c->eval_fingerprint, &out->data));
    if (is_unknown(run->job->train_source, c->fingerprint) ||
        is_unknown(run->job->eval_source, c->eval_fingerprint))
        CLT_TRY(start_prints(run, folder, out));
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
    stop_prints(texts);
    clt_str_free(&texts->config);
    clt_str_free(&texts->data);
    clt_str_free(&texts->tokenizer);
    clt_str_free(&texts->roles);
}
