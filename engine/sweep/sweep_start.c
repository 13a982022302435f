/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the command line of a trial's training, and the checks before a worker takes its first trial. These
 * do not depend on the trial, so that a machine that is set up wrongly fails no trial. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/cloud/notice.h"
#include "engine/data/data.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"
#include "engine/report/read/run_cost.h"
#include "engine/sweep/sweep_internal.h"

#define UPLOAD "checkpoint.upload"
#define ABANDON_SECONDS 5.0 /* time that a killed hook may take to end */

/* --- the command line --- */

static void put_word(clt_sweep_command *c, const char *word)
{
    if (word)
        c->words[c->count++] = word;
    c->failed = c->failed || !word;
}

static void put_option(clt_sweep_command *c, const char *option, const char *value)
{
    put_word(c, option);
    put_word(c, value);
}

/* The number of a key that takes several values; -1: it does not. */
static int varied(const clt_sweep *s, const char *path)
{
    for (int k = 0; k < s->key_count; k++)
        if (strcmp(s->keys[k].path, path) == 0)
            return k;
    return -1;
}

const char *clt_sweep_upload(const clt_sweep *s, int trial, clt_str *shown)
{
    const int key = varied(s, UPLOAD);
    return key < 0 ? clt_config_string(s->config, UPLOAD) : clt_sweep_shown(s, trial, key, shown);
}

/* --- how long the end of a training may take --- */

static double number(const clt_sweep *s, int trial, const char *path)
{
    const int key = varied(s, path);
    return key < 0 ? clt_config_float(s->config, path)
                   : clt_strtod(s->values[trial * s->key_count + key], NULL);
}

static bool has_hook(const clt_sweep *s, int trial, const char *path)
{
    const int key = varied(s, path);
    return key < 0 ? clt_config_list_count(s->config, path) > 0
                   : strcmp(s->values[trial * s->key_count + key], "[]") != 0;
}

double clt_sweep_end_seconds(const clt_sweep *s, int trial)
{
    /* on_notice and on_save count twice: at the end one event may still run while the newest waits for it */
    const int runs = 2 * has_hook(s, trial, "hooks.on_notice") + 2 * has_hook(s, trial, "hooks.on_save") +
                     has_hook(s, trial, "hooks.on_exit");
    double seconds = runs * (number(s, trial, "hooks.seconds") + ABANDON_SECONDS);
    CLT_SCOPED(clt_str) shown = {0};
    if (clt_sweep_upload(s, trial, &shown)[0]) {
        const double most = number(s, trial, "checkpoint.upload_seconds");
        seconds += most > 0 ? most : INFINITY;
    }
    return seconds;
}

/* --- the words --- */

/* The values of the trial's keys; each trial uploads below its own name. */
static void put_keys(const clt_sweep *s, int trial, const char *upload, clt_sweep_command *c)
{
    char name[CLT_SWEEP_NAME];
    size_t length = strlen(upload);
    while (length > 0 && upload[length - 1] == '/')
        length--;
    for (int k = 0; k < s->key_count; k++)
        if (strcmp(s->keys[k].path, UPLOAD) != 0)
            put_word(
                c, clt_arena_printf(c->arena, "%s=%s", s->keys[k].path, s->values[trial * s->key_count + k]));
    if (length > 0)
        put_word(c, clt_arena_printf(c->arena, UPLOAD "=%.*s/%s", (int)length, upload,
                                     clt_sweep_trial_name(s, trial, name)));
}

/* "PROGRAM train CONFIG key=value ... --out RUN --resume auto". A first training with a place for uploads
 * does not resume: it would take what it finds there for its own. */
clt_status clt_sweep_make_command(const clt_sweep *s, int trial, int rung, const char *config,
                                  const char *run, const char *device, clt_sweep_command *c)
{
    const int64_t steps = s->rung_steps[rung];
    CLT_SCOPED(clt_str) shown = {0};
    const char *upload = clt_sweep_upload(s, trial, &shown);
    put_word(c, c->program);
    put_option(c, "train", config);
    put_keys(s, trial, upload, c);
    put_option(c, "--out", run);
    if (!upload[0] || clt_is_directory(run))
        put_option(c, "--resume", "auto");
    if (s->init)
        put_option(c, "--init", s->init);
    if (steps > 0)
        put_option(c, "--max-steps", clt_arena_printf(c->arena, "%lld", (long long)steps));
    if (device)
        put_option(c, "--device", device);
    if (c->failed || shown.failed)
        CLT_FAIL(CLT_ENOMEM, "starting a training: out of host memory");
    return CLT_OK;
}

/* --- the machine --- */

/* True if a key whose path begins with `start` takes several values. */
static bool varies(const clt_sweep *s, const char *start)
{
    bool any = false;
    for (int k = 0; k < s->key_count; k++)
        any = any || strncmp(s->keys[k].path, start, strlen(start)) == 0;
    return any;
}

static clt_status check_cloud(const clt_config *c)
{
    return clt_notices_check(&(clt_notice_options){.provider = clt_config_string(c, "cloud.provider"),
                                                   .file = clt_config_string(c, "cloud.notice_file"),
                                                   .url = clt_config_string(c, "cloud.notice_url"),
                                                   .endpoint = clt_config_string(c, "cloud.endpoint")});
}

static bool is_remote(const clt_config *c)
{
    static const char *const lists[] = {"data.path", "data.eval_path"};
    bool found = false;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < clt_config_list_count(c, lists[k]); i++)
            found = found || clt_is_remote(clt_config_list_string(c, lists[k], i));
    return found;
}

static clt_status check_data(const clt_config *c)
{
    CLT_SCOPED(clt_source) *train = NULL;
    CLT_SCOPED(clt_source) *eval = NULL;
    CLT_TRY(clt_source_open(c, CLT_SPLIT_TRAIN, &train));
    if (!clt_source_has_eval(c))
        return CLT_OK;
    const clt_source_with with = {.training = train};
    return clt_source_open_with(c, CLT_SPLIT_EVAL, &with, &eval);
}

clt_status clt_sweep_check_machine(const clt_sweep *s, const char **unchecked)
{
    double price;
    /* data depends on the context, too; a bucket looks the same from all machines */
    *unchecked = varies(s, "data.")           ? "data.* takes several values"
                 : varies(s, "model.context") ? "model.context takes several values"
                 : is_remote(s->config)       ? "it lies in a bucket"
                                              : NULL;
    if (!varies(s, "cost.per_hour"))
        CLT_TRY(clt_cost_price(s->config, &price));
    if (!varies(s, "cloud."))
        CLT_TRY(check_cloud(s->config));
    return *unchecked ? CLT_OK : check_data(s->config);
}
