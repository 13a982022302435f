/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a sweep: sweep.json, config.json (the config with the values of "set"), and for each trial
 * its run folder, a record in done/ or failed/, a lease in lease/ and what its trainings printed in output/.
 * Knows nothing of who trains. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"
#include "engine/sweep/sweep_internal.h"
#include "engine/sweep/sweep_lease.h"

#define MAX_BYTES 1000000
#define INIT_FILE "init.json"

clt_status clt_sweep_record_path(const clt_sweep *s, const char *folder, const char *kind, int trial,
                                 int rung, const char *end, char **out)
{
    CLT_SCOPED(clt_str) path = {0};
    char name[CLT_SWEEP_NAME];
    clt_str_printf(&path, "%s/%s/%s-%d%s", folder, kind, clt_sweep_trial_name(s, trial, name), rung, end);
    return clt_str_take(&path, out);
}

/* --- the folder itself --- */

static bool is_empty(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
}

/* As clt_file_create, but an empty file counts as none. Where a file system has no hard links,
 * clt_file_create reserves a name by an empty file, which stays if its process is killed then. So this waits
 * a moment and then writes the file. Two processes may both write it: the text is the same. */
static clt_status create_record(const char *path, const char *text, size_t length, bool *created)
{
    CLT_TRY(clt_file_create(path, text, length, created));
    if (*created || !is_empty(path))
        return CLT_OK;
    (void)sleep(1);
    if (!is_empty(path))
        return CLT_OK;
    *created = true;
    return clt_file_write(path, text, length);
}

/* Creates a file with this text, or reads the text of the existing file into *other. */
static clt_status make_or_read(const char *path, const char *text, char **other)
{
    bool created;
    size_t length;
    *other = NULL;
    CLT_TRY(create_record(path, text, strlen(text), &created));
    return created ? CLT_OK : clt_file_read(path, false, 0, CLT_EDATA, other, &length);
}

static clt_status prepare_config(const clt_sweep *s, const char *folder)
{
    CLT_FREED char *path = NULL, *other = NULL;
    CLT_SCOPED(clt_str) text = {0}, difference = {0};
    unsigned kinds = CLT_KEYS_FIXED | CLT_KEYS_LENGTH | CLT_KEYS_DATA | CLT_KEYS_RATE;
    if (!s->init) /* otherwise prepare_init has compared them */
        kinds |= CLT_KEYS_START;
    CLT_TRY(clt_path_join(folder, "config.json", &path));
    CLT_TRY(clt_config_print(s->config, true, &text));
    clt_str_append(&text, "\n");
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(make_or_read(path, text.text, &other));
    if (other)
        CLT_TRY(clt_config_diff(other, s->config, kinds, &difference));
    if (difference.length > 0)
        CLT_FAIL(CLT_ECONFIG,
                 "'%s' holds a sweep over another config; give another folder with --out, or remove it. %s: "
                 "%s",
                 folder, s->config_path, difference.text);
    return CLT_OK;
}

clt_status clt_sweep_init_of(const char *folder, clt_arena *arena, const char **out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_FREED char *path = NULL;
    *out = NULL;
    CLT_TRY(clt_path_join(folder, INIT_FILE, &path));
    if (!clt_file_exists(path) || is_empty(path))
        return CLT_OK;
    CLT_TRY(clt_json_parse_file(path, CLT_ECONFIG, &doc));
    const clt_json *value = clt_json_get(clt_json_root(doc), "init");
    if (clt_json_typeof(value) != CLT_JSON_STRING)
        CLT_FAIL(CLT_ECONFIG, "%s: it does not name the weights that the trials start from", path);
    *out = clt_arena_strdup(arena, clt_json_string(value));
    if (!*out)
        CLT_FAIL(CLT_ENOMEM, "reading a sweep: out of host memory");
    return CLT_OK;
}

/* Notes which weights the trials start from, for workers that come later. It is the first file of the
 * folder, so in a folder with sweep.json and without this file, trials start from random weights. */
static clt_status prepare_init(const clt_sweep *s, const char *folder)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_FREED char *path = NULL, *other = NULL;
    const char *there;
    CLT_TRY(clt_arena_create(&arena));
    if (s->init && !clt_sweep_is_folder(folder)) {
        clt_json_writer w = clt_json_writer_make(&text, 0);
        clt_jw_object(&w);
        clt_jw_kstring(&w, "init", s->init);
        clt_jw_end_object(&w);
        CLT_TRY(clt_str_check(&text));
        CLT_TRY(clt_path_join(folder, INIT_FILE, &path));
        CLT_TRY(make_or_read(path, text.text, &other));
    }
    CLT_TRY(clt_sweep_init_of(folder, arena, &there));
    if (!there != !s->init || (there && strcmp(there, s->init) != 0))
        CLT_FAIL(
            CLT_ECONFIG,
            "'%s' holds a sweep whose trials start from %s%s: give --init accordingly, or another folder "
            "with --out",
            folder, there && *there ? "the weights " : "random weights", there ? there : "");
    return CLT_OK;
}

/* The members of a sweep.json in their order, as text, without "metric" and "goal", which train nothing. */
static clt_status trained_members(const char *text, const char *source, clt_str *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(clt_json_parse(text, strlen(text), source, CLT_ECONFIG, &doc));
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_object(&w);
    for (const clt_json *m = clt_json_first(clt_json_root(doc)); m; m = clt_json_next(m)) {
        if (strcmp(clt_json_key(m), "metric") == 0 || strcmp(clt_json_key(m), "goal") == 0)
            continue;
        clt_jw_key(&w, clt_json_key(m));
        clt_jw_value(&w, m);
    }
    clt_jw_end_object(&w);
    return clt_str_check(out);
}

/* Finds out whether the folder has a result. */
static clt_status has_results(const char *folder, bool *out)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_FREED char *done = NULL;
    CLT_TRY(clt_path_join(folder, "done", &done));
    *out = false;
    if (!clt_is_directory(done))
        return CLT_OK;
    CLT_TRY(clt_folder_names(done, &names));
    *out = names.count > 0;
    return CLT_OK;
}

/* Makes sweep.json, or checks that the one in the folder is the same sweep. The metric and its goal may
 * change, unless halving has chosen trials by them. */
static clt_status prepare_text(const clt_sweep *s, const char *folder)
{
    CLT_FREED char *path = NULL, *other = NULL;
    CLT_SCOPED(clt_str) here = {0}, there = {0};
    bool chosen = false;
    CLT_TRY(clt_path_join(folder, "sweep.json", &path));
    CLT_TRY(make_or_read(path, s->text, &other));
    if (!other || strcmp(other, s->text) == 0)
        return CLT_OK;
    CLT_TRY(trained_members(s->text, s->source, &here));
    CLT_TRY(trained_members(other, path, &there));
    if (strcmp(here.text, there.text) != 0)
        CLT_FAIL(CLT_ECONFIG,
                 "'%s' holds another sweep than %s; give another folder with --out, or resume that sweep: "
                 "cltrain sweep %s",
                 folder, s->source, folder);
    if (s->method == CLT_SWEEP_HALVING)
        CLT_TRY(has_results(folder, &chosen));
    if (chosen)
        CLT_FAIL(CLT_ECONFIG,
                 "'%s' has results by which halving chooses, so \"metric\" and \"goal\" stay as they are; "
                 "give another folder with --out",
                 folder);
    return clt_file_write(path, s->text, strlen(s->text));
}

clt_status clt_sweep_prepare(const clt_sweep *s, const char *folder)
{
    static const char *const parts[] = {"done", "failed", "lease", "output"};
    CLT_FREED char *run = NULL;
    CLT_TRY(clt_refuse_remote(folder));
    CLT_TRY(clt_path_join(folder, "config.resolved.json", &run));
    if (clt_file_exists(run))
        CLT_FAIL(CLT_EUSAGE, "'%s' is the folder of a run; give another folder with --out", folder);
    CLT_TRY(clt_mkdir_p(folder));
    CLT_TRY(prepare_init(s, folder));
    CLT_TRY(prepare_config(s, folder));
    CLT_TRY(prepare_text(s, folder));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        CLT_FREED char *part = NULL;
        CLT_TRY(clt_path_join(folder, parts[i], &part));
        CLT_TRY(clt_mkdir_p(part));
    }
    return CLT_OK;
}

/* --- records --- */

/* Reads a record; *out is NULL if there is none, or an empty one (create_record). */
static clt_status read_record(const clt_sweep *s, const char *folder, const char *kind, int trial, int rung,
                              clt_json_doc **out)
{
    CLT_FREED char *path = NULL;
    *out = NULL;
    CLT_TRY(clt_sweep_record_path(s, folder, kind, trial, rung, ".json", &path));
    return clt_file_exists(path) && !is_empty(path) ? clt_json_parse_file(path, CLT_EDATA, out) : CLT_OK;
}

static double number_of(const clt_json_doc *doc, const char *name)
{
    return clt_json_number_or(clt_json_get(clt_json_root(doc), name), NAN);
}

/* Reads the sweep's metric from the trial's run folder; NAN: it is unknown there. */
static clt_status metric_of_run(const clt_sweep *s, const char *folder, int trial, double *out)
{
    CLT_SCOPED(clt_run_record) *record = NULL;
    CLT_FREED char *run = NULL;
    char name[CLT_SWEEP_NAME];
    CLT_TRY(clt_path_join(folder, clt_sweep_trial_name(s, trial, name), &run));
    clt_status status = clt_run_record_load(run, &record);
    *out = status == CLT_OK ? clt_run_facts_of(record).value[s->metric] : NAN;
    if (status == CLT_ENOMEM)
        return status;
    clt_error_clear();
    return CLT_OK;
}

clt_status clt_sweep_read_result(const clt_sweep *s, const char *folder, int trial, int rung,
                                 clt_trial_result *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    *out = (clt_trial_result){.rung = rung, .value = NAN, .seconds = NAN, .cost = NAN};
    CLT_TRY(read_record(s, folder, "done", trial, rung, &doc));
    if (!doc)
        return CLT_OK;
    out->done = true;
    const clt_json *metric = clt_json_get(clt_json_root(doc), "metric");
    bool other = metric && !clt_json_is(metric, clt_fact_columns[s->metric].key);
    out->value = number_of(doc, "value");
    out->steps = (int64_t)clt_json_number(clt_json_get(clt_json_root(doc), "steps"));
    out->seconds = number_of(doc, "seconds");
    out->cost = number_of(doc, "cost");
    /* the trial was compared by another metric when it was done */
    return other ? metric_of_run(s, folder, trial, &out->value) : CLT_OK;
}

clt_status clt_sweep_write_result(const clt_sweep *s, const char *folder, int trial, int rung,
                                  const clt_trial_result *result, bool *created)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 1);
    clt_jw_object(&w);
    clt_jw_kint(&w, "trial", trial + 1);
    clt_jw_kint(&w, "rung", rung);
    CLT_TRY(clt_sweep_write_keys(s, trial, &w));
    clt_jw_kstring(&w, "metric", clt_fact_columns[s->metric].key);
    clt_jw_kdouble(&w, "value", result->value);
    clt_jw_kint(&w, "steps", result->steps);
    clt_jw_kdouble(&w, "seconds", result->seconds);
    if (!isnan(result->cost))
        clt_jw_kdouble(&w, "cost", result->cost);
    clt_jw_end_object(&w);
    clt_str_append(&text, "\n");
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clt_sweep_record_path(s, folder, "done", trial, rung, ".json", &path));
    return create_record(path, text.text, text.length, created);
}

clt_status clt_sweep_read_failures(const clt_sweep *s, const char *folder, int trial, int rung,
                                   clt_trial_failures *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    memset(out, 0, sizeof *out);
    CLT_TRY(read_record(s, folder, "failed", trial, rung, &doc));
    if (!doc)
        return CLT_OK;
    const clt_json *root = clt_json_root(doc);
    out->failed = (int)clt_json_number(clt_json_get(root, "failed"));
    out->killed = (int)clt_json_number(clt_json_get(root, "killed"));
    out->given_up = clt_json_bool(clt_json_get(root, "given_up"));
    snprintf(out->reason, sizeof out->reason, "%s", clt_json_string(clt_json_get(root, "reason")));
    return CLT_OK;
}

clt_status clt_sweep_write_failures(const clt_sweep *s, const char *folder, int trial, int rung,
                                    const clt_trial_failures *f)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 1);
    clt_jw_object(&w);
    clt_jw_kint(&w, "trial", trial + 1);
    clt_jw_kint(&w, "rung", rung);
    clt_jw_kint(&w, "failed", f->failed);
    clt_jw_kint(&w, "killed", f->killed);
    clt_jw_kbool(&w, "given_up", f->given_up);
    clt_jw_kstring(&w, "reason", f->reason);
    clt_jw_end_object(&w);
    clt_str_append(&text, "\n");
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clt_sweep_record_path(s, folder, "failed", trial, rung, ".json", &path));
    return clt_file_write(path, text.text, text.length);
}

/* The newest rung with a record of kind `kind`; names of records begin with "trial-03-1" (rung 1). */
static clt_status newest_rung(const char *folder, const char *kind, int *rung)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, kind, &path));
    CLT_TRY(clt_folder_names(path, &names));
    for (size_t i = 0; i < names.count; i++) {
        int of;
        if (sscanf(names.name[i], "trial-%*d-%d", &of) == 1 && of > *rung)
            *rung = of;
    }
    return CLT_OK;
}

/* CLT_EUSAGE: a trial of this rung is being trained. */
static clt_status check_idle(const clt_sweep *s, const char *folder, int rung)
{
    char name[CLT_SWEEP_NAME], who[320];
    for (int t = 0; t < s->trials; t++) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_sweep_record_path(s, folder, "lease", t, rung, "", &path));
        if (clt_lease_holder(path, who, sizeof who))
            CLT_FAIL(CLT_EUSAGE,
                     "--again: %s trains %s; with halving, end all workers first; without --again this "
                     "command works beside them and takes over the trials of a machine that has disappeared",
                     who, clt_sweep_trial_name(s, t, name));
    }
    return CLT_OK;
}

clt_status clt_sweep_forget_failures(const clt_sweep *s, const char *folder)
{
    static const char *const kinds[] = {"done", "failed", "lease"};
    clt_trial_failures failures;
    int rung = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        CLT_TRY(newest_rung(folder, kinds[i], &rung));
    if (s->rungs > 1)
        CLT_TRY(check_idle(s, folder, rung));
    for (int t = 0; t < s->trials && rung < s->rungs; t++) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_sweep_read_failures(s, folder, t, rung, &failures));
        CLT_TRY(clt_sweep_record_path(s, folder, "failed", t, rung, ".json", &path));
        if (failures.given_up && unlink(path) != 0 && errno != ENOENT)
            return clt_fail_errno(CLT_ESTORAGE, errno, "removing '%s'", path);
    }
    return CLT_OK;
}
