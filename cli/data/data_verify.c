/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain data verify: reads all data that a config names, or files given one by one, prints a line for
 * each, and continues after a bad one. The engine knows the formats of files. */
#include "cli/data/data_verify.h"
#include "cli/screen/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data_images.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "engine/base/text.h"
#include "engine/data/data.h"
#include "engine/data/texts/text_paths.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/data/tokens/prepare.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/train/job/job.h"

typedef struct verify_run {
    const cmd_context *context;
    console console;       /* shows which file is being read */
    const char *tokenizer; /* for token shards given by name; "": none */
    const char *init;      /* weights from which missing keys of a config are filled in; NULL: none */
    int good, bad;
    int records;     /* number of good records in files that also have bad ones */
    clt_error fault; /* an error that the data did not cause, such as missing memory: it ends the check */
} verify_run;

static void report(verify_run *v, const char *what, clt_status status, const char *description)
{
    console_clear(&v->console);
    if (clt_status_exit_code(status) == clt_status_exit_code(CLT_ENOMEM)) {
        clt_error_take(status, &v->fault);
        return;
    }
    if (status == CLT_OK) {
        v->good++;
        terminal_say_item(5, "ok   %s: %s\n", what, description);
    } else {
        v->bad++;
        terminal_say_item(5, "BAD  %s: %s\n", what, clt_error_text());
    }
    fflush(stdout);
}

static bool stopped(const verify_run *v)
{
    return v->fault.status != CLT_OK || (v->context->stop && atomic_load(v->context->stop));
}

/* --- samples one by one --- */

typedef struct sample_view {
    verify_run *v;
    const char *what;
} sample_view;

static void on_bad(void *context)
{
    const sample_view *s = context;
    report(s->v, s->what, CLT_EDATA, "");
}

static clt_status on_checked(void *context, int64_t done, int64_t total)
{
    const sample_view *s = context;
    char text[160];
    if (stopped(s->v))
        CLT_FAIL(CLT_EINTERRUPTED, "verifying data: stopped by a signal; run it again");
    (void)snprintf(text, sizeof text, "decoding: %lld of %lld, %d bad", (long long)done, (long long)total,
                   s->v->bad);
    console_observer(&s->v->console).progress(&s->v->console, text, done, total);
    return CLT_OK;
}

/* Checks every sample and names each bad one. The whole set counts as good only if every sample is good. */
static clt_status verify_samples(verify_run *v, const char *what, const clt_source *source)
{
    sample_view view = {.v = v, .what = what};
    data_check check = {.bad = on_bad, .progress = on_checked, .context = &view};
    CLT_TRY(data_check_samples(source, &check));
    v->good += (int)check.good;
    console_clear(&v->console);
    terminal_say_item(5, "%s %s: %s; %lld of %lld samples are good\n", check.n_bad ? "BAD " : "ok  ", what,
                      source->description, (long long)check.good, (long long)source->samples);
    return CLT_OK;
}

/* --- a config --- */

/* Checks that indices are in the range that the config's model accepts. Then reads every value, except for
 * data whose samples are checked one by one (report_source). */
static clt_status check_source(const clt_config *config, const clt_source *shapes, const clt_source *source)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    int32_t prediction;
    /* negative means auto; the size does not matter here */
    int64_t micro = clt_config_int(config, "data.micro_batch");
    CLT_TRY(clt_job_graph(config, shapes, micro > 0 ? micro : 1, &graph, &prediction));
    CLT_TRY(clt_job_check_indices(graph, source));
    return source->type->check_sample ? CLT_OK : clt_source_scan(source);
}

/* Reports the result of check_source. If samples of this data are checked one by one, checks and reports
 * them. */
static clt_status report_source(verify_run *v, const char *what, clt_status status, const clt_source *source)
{
    if (status == CLT_OK && source->type->check_sample)
        return verify_samples(v, what, source);
    report(v, what, status, source ? source->description : "");
    return CLT_OK;
}

/* Reports one of many files of the data. False: stop. */
static bool on_file(void *context, const char *path, clt_status status, const char *text)
{
    verify_run *v = context;
    if (path)
        report(v, path, status, text);
    else
        v->records++;
    return !stopped(v);
}

static clt_status verify_config(verify_run *v, const char *path, const clt_config *config)
{
    const clt_source_type *type = clt_source_type_of(config);
    int bad = v->bad;
    v->records = 0;
    if (type->check_config) {
        clt_status checked = type->check_config(config, on_file, v);
        if (checked != CLT_OK)
            report(v, path, checked, "");
        if (v->bad > bad)
            v->good += v->records;
        if (v->bad > bad || stopped(v)) /* opening the data would only repeat the first error */
            return CLT_OK;
    }
    CLT_SCOPED(clt_source) *train = NULL;
    CLT_SCOPED(clt_source) *eval = NULL;
    CLT_SCOPED(clt_str) what = {0};
    clt_status status = clt_source_open(config, CLT_SPLIT_TRAIN, &train);
    if (status == CLT_OK)
        status = check_source(config, train, train);
    clt_str_printf(&what, "%s, training data", path);
    CLT_TRY(report_source(v, what.text, status, train));
    if (!clt_source_has_eval(config))
        return CLT_OK;
    status = clt_source_open(config, CLT_SPLIT_EVAL, &eval);
    if (status == CLT_OK)
        status = check_source(config, train ? train : eval, eval);
    what.length = 0;
    clt_str_printf(&what, "%s, evaluation data", path);
    return report_source(v, what.text, status, eval);
}

/* Checks a folder of images, or a packed folder. In a CIFAR folder the test images are checked, too. */
static clt_status verify_images(verify_run *v, const char *path, const args_result *r)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_TRY(data_images_config(path, r->overrides, r->n_overrides, &config));
    for (int split = 0; split < (clt_source_has_eval(config) ? 2 : 1); split++) {
        CLT_SCOPED(clt_source) *source = NULL;
        clt_status status = clt_source_open(config, split ? CLT_SPLIT_EVAL : CLT_SPLIT_TRAIN, &source);
        CLT_TRY(report_source(v, path, status, source));
    }
    return CLT_OK;
}

/* --- files --- */

static void verify_file(verify_run *v, const char *path)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_status status = clt_source_check_file(path, v->tokenizer, &text);
    report(v, path, status, text.text ? text.text : "");
}

static void on_prepared(void *context, const char *path, clt_status status, int64_t tokens)
{
    char text[64];
    if (tokens > 0)
        snprintf(text, sizeof text, "%lld token%s, hash as in the manifest", (long long)tokens,
                 CLT_PLURAL(tokens));
    else
        snprintf(text, sizeof text, "as in the manifest");
    report(context, path, status, text);
}

/* Checks a folder, if a data format recognises it; false: none does. */
static bool verify_files_of(verify_run *v, const char *folder)
{
    int n;
    bool mine = false;
    const clt_source_type *const *types = clt_source_types(&n);
    for (int i = 0; i < n && !mine; i++) {
        clt_status status = CLT_OK;
        if (types[i]->check_folder)
            status = types[i]->check_folder(folder, on_file, v, &mine);
        if (status != CLT_OK)
            report(v, folder, status, "");
        mine = mine || status != CLT_OK;
    }
    return mine;
}

static clt_status verify_folder(verify_run *v, const char *folder)
{
    CLT_FREED char *manifest = NULL;
    CLT_SCOPED(clt_file_list) list = {0};
    CLT_TRY(clt_path_join(folder, "manifest.json", &manifest));
    if (clt_file_exists(manifest))
        return clt_prepare_check(folder, on_prepared, v);
    if (verify_files_of(v, folder))
        return CLT_OK;
    if (!clt_folder_has_shards(folder, ""))
        return data_refuse_folder(folder, "data verify");
    CLT_TRY(clt_shard_paths(folder, "", "data verify", &list));
    for (size_t i = 0; i < list.count && !stopped(v); i++)
        verify_file(v, list.name[i]);
    return CLT_OK;
}

static void verify_tokenizer(verify_run *v, const char *path)
{
    CLT_SCOPED(clt_tokenizer) *tokenizer = NULL;
    clt_status status = clt_tokenizer_open(path, &tokenizer);
    report(v, path, status, tokenizer ? clt_tokenizer_description(tokenizer) : "");
}

/* A JSON file with a member "data" is a config. */
static bool is_config(const char *path)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    return clt_ends_with(path, ".json") && clt_json_parse_file(path, CLT_EDATA, &doc) == CLT_OK &&
           clt_json_get(clt_json_root(doc), "data") != NULL;
}

static clt_status verify_operand(verify_run *v, const char *path, const args_result *r)
{
    if (is_config(path)) {
        CLT_SCOPED(clt_config) *config = NULL;
        CLT_TRY(data_load_config(path, r->overrides, r->n_overrides, v->init, &config));
        return verify_config(v, path, config);
    }
    CLT_TRY(data_no_init(path, v->init));
    if (data_is_images(path))
        return verify_images(v, path, r);
    if (clt_is_directory(path)) {
        clt_status status = verify_folder(v, path);
        if (status != CLT_OK)
            report(v, path, status, "");
    } else if (clt_ends_with(path, ".json") || clt_ends_with(path, ".bpe") ||
               clt_ends_with(path, "merges.txt")) {
        verify_tokenizer(v, path);
    } else {
        verify_file(v, path);
    }
    return CLT_OK;
}

clt_status data_verify(cmd_context *context, int argc, char **argv)
{
    verify_run v = {.context = context, .tokenizer = ""};
    const args_option options[] = {
        ARGS_TEXT("--tokenizer", "PATH", v.tokenizer,
                  "vocabulary of shards given by name; without it the tokenizer.json "
                  "beside them, if any"),
        ARGS_TEXT("--init", "PATH", v.init,
                  "weights that the training starts from, as in 'train'; the CONFIG may leave out the "
                  "keys of the model and the tokenizer that these weights tell"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "data verify", "CONFIG|FILE|FOLDER... [section.key=value ...]", 1, ARGS_MAX, options,
        "Reads all data of a config, folders of images or volumes, or single files "
        "(idx, npy, nifti, .bin shards, tokenizers, packed images) and folders of shards, to the end.");
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    console_init(&v.console, context);
    clt_status status = CLT_OK;
    for (int i = 0; i < r.n_operands && status == CLT_OK && !stopped(&v); i++) {
        char what[160];
        snprintf(what, sizeof what, "reading the data: %.120s", r.operands[i]);
        console_observer(&v.console).progress(&v.console, what, i, r.n_operands);
        status = verify_operand(&v, r.operands[i], &r);
    }
    console_close(&v.console);
    CLT_TRY(status);
    if (v.fault.status != CLT_OK)
        return clt_error_put(&v.fault);
    if (stopped(&v))
        CLT_FAIL(CLT_EINTERRUPTED, "verifying data: stopped by a signal; run it again");
    if (v.bad > 0)
        CLT_FAIL(CLT_EDATA, "verifying data: %d of %d %s bad; each is named above", v.bad, v.good + v.bad,
                 v.bad == 1 ? "is" : "are");
    terminal_say("%d good, none bad\n", v.good);
    return CLT_OK;
}
