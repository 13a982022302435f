/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a saved run: finds its checkpoint, config, data and tokenizer, and puts into the config what the
 * training found out. */
#include "engine/checkpoint/saved_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/open/data_paths.h"
#include "engine/files/fileio.h"
#include "engine/models/models.h"

/* --- where the run is --- */

/* The path of a file in the run folder, if the checkpoint lies in one (run/checkpoints/step_N). */
static clt_status above(const char *step, const char *name, char **path)
{
    CLT_SCOPED(clt_str) relative = {0};
    clt_str_printf(&relative, "../../%s", name);
    CLT_TRY(clt_str_check(&relative));
    return clt_path_join(step, relative.text, path);
}

/* Derives the run folder: "run/checkpoints/step_5" -> "run"; a path of another form gets "/../.."
 * appended. */
static void name_folder(clt_saved_run *saved)
{
    char *text = saved->folder;
    size_t size = sizeof saved->folder;
    const char *path = saved->path, *checkpoints = NULL;
    for (const char *at = path; (at = strstr(at, "/checkpoints/step_")); at++)
        checkpoints = at;
    if (checkpoints && checkpoints > path && !strchr(checkpoints + 13, '/'))
        snprintf(text, size, "%.*s", (int)(checkpoints - path), path);
    else if (strncmp(path, "checkpoints/step_", 17) == 0)
        snprintf(text, size, ".");
    else if ((size_t)snprintf(text, size, "%s/../..", path) >= size)
        text[0] = '\0';
}

static clt_status find_folder(clt_saved_run *saved)
{
    CLT_FREED char *config = NULL;
    snprintf(saved->path, sizeof saved->path, "%s", saved->checkpoint->path);
    if (strlen(saved->checkpoint->path) >= sizeof saved->path)
        CLT_FAIL(CLT_ECHECKPOINT, "opening a saved run: its path of %zu bytes is too long",
                 strlen(saved->checkpoint->path));
    CLT_TRY(above(saved->path, "config.resolved.json", &config));
    if (clt_file_exists(config))
        name_folder(saved);
    return CLT_OK;
}

/* --- its config --- */

/* Looks for a config where older programs, or users who copied it by hand, have put it. */
static clt_status config_beside(const clt_saved_run *saved, char **found)
{
    static const char *const places[] = {"config.resolved.json", "../config.resolved.json",
                                         "../../config.resolved.json"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        CLT_TRY(clt_path_join(saved->path, places[i], found));
        if (clt_file_exists(*found))
            return CLT_OK;
        free(*found);
        *found = NULL;
    }
    CLT_FAIL(
        CLT_ECHECKPOINT,
        "opening the saved run '%s': it holds no config.json (an older cltrain wrote it), and there is no "
        "config.resolved.json of its run above it; put the run's config.resolved.json into the folder, or "
        "name the config where the command takes one",
        saved->path);
}

/* Refuses overrides of what a run on a table learned from its training data. */
static clt_status check_overrides(const clt_saved_run *saved, const char *text,
                                  const clt_saved_run_options *o)
{
    CLT_SCOPED(clt_str) diff = {0};
    if (!saved->facts.table || o->training || o->n_overrides == 0)
        return CLT_OK;
    CLT_TRY(clt_config_diff(text, saved->config, CLT_KEYS_TABLE, &diff));
    if (diff.length)
        CLT_FAIL(CLT_ECONFIG,
                 "opening the saved run '%s': these keys were fixed when the run read its table; start a new "
                 "run to change them\n%s",
                 saved->path, diff.text);
    return CLT_OK;
}

/* named: the path that the user gave: a run folder, or a checkpoint in it. */
static clt_status open_config(clt_saved_run *saved, const char *named, const clt_saved_run_options *o)
{
    CLT_FREED char *text = NULL, *path = NULL;
    size_t length;
    if (o->newest_config && saved->folder[0] && !clt_same_folder(named, saved->path)) {
        CLT_TRY(clt_path_join(saved->folder, "config.resolved.json", &path));
        return clt_config_load(path, o->overrides, o->n_overrides, &saved->config);
    }
    CLT_TRY(clt_checkpoint_text(saved->checkpoint, CLT_SAVED_CONFIG_FILE, &text, &length));
    if (!text) {
        CLT_TRY(config_beside(saved, &path));
        return clt_config_load(path, o->overrides, o->n_overrides, &saved->config);
    }
    CLT_TRY(clt_path_join(saved->path, CLT_SAVED_CONFIG_FILE, &path));
    CLT_TRY(clt_config_parse(text, path, o->overrides, o->n_overrides, &saved->config));
    return check_overrides(saved, text, o);
}

static clt_status open_facts(clt_saved_run *saved)
{
    CLT_FREED char *text = NULL, *path = NULL;
    size_t length;
    CLT_TRY(clt_checkpoint_text(saved->checkpoint, CLT_DATA_FACTS_FILE, &text, &length));
    if (!text)
        return CLT_OK;
    CLT_TRY(clt_path_join(saved->path, CLT_DATA_FACTS_FILE, &path));
    CLT_TRY(clt_data_facts_parse(text, length, path, &saved->facts));
    saved->has_facts = true;
    return CLT_OK;
}

/* --- its data and tokenizer --- */

static clt_status find_data(clt_saved_run *saved)
{
    CLT_FREED char *near = NULL;
    clt_data_places places = {.then = saved->facts.folder};
    if (saved->folder[0] && saved->facts.folder_from_run[0])
        CLT_TRY(clt_path_join(saved->folder, saved->facts.folder_from_run, &near));
    places.near = near;
    return clt_fail_prefix(clt_data_paths_find(saved->config, &places), "opening the saved run '%s'",
                           saved->path);
}

/* Chooses the tokenizer: the one on the command line, else the one saved with the checkpoint, as it was when
 * the training began. A resumed training uses the one that its config names, so that the config does not
 * change. */
static clt_status choose_tokenizer(clt_saved_run *saved, const clt_saved_run_options *o)
{
    const char *named = clt_config_string(saved->config, "data.tokenizer");
    CLT_FREED char *path = NULL;
    if (o->tokenizer)
        return clt_config_set_text(saved->config, "data.tokenizer", o->tokenizer);
    if (strcmp(clt_config_origin(saved->config, "data.tokenizer"), "override") == 0)
        return CLT_OK;
    if (o->training && (!*named || clt_file_exists(named)))
        return CLT_OK;
    CLT_TRY(clt_path_join(saved->path, CLT_SAVED_TOKENIZER_FILE, &path));
    if (clt_file_exists(path))
        return clt_config_set_text(saved->config, "data.tokenizer", path);
    if (*named && strcmp(saved->facts.tokenizer, "bytes") == 0) /* encoding bytes needs no file */
        return clt_config_set_text(saved->config, "data.tokenizer", "bytes");
    return CLT_OK;
}

/* Puts the class names that the training found into the config, so that other commands need no data for
 * them. The config of a training that is resumed does not change. */
static clt_status choose_class_names(clt_saved_run *saved, const clt_saved_run_options *o)
{
    static const char key[] = "data.class_names";
    CLT_SCOPED(clt_str) text = {0};
    if (o->training || saved->facts.n_class_names == 0 || clt_config_list_count(saved->config, key) > 0 ||
        !clt_config_part_has(clt_config_chosen(saved->config, "data.type"), key))
        return CLT_OK;
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_jw_array(&w);
    const char *name = saved->facts.class_names.text;
    for (int64_t i = 0; i < saved->facts.n_class_names; i++, name += strlen(name) + 1)
        clt_jw_string(&w, name);
    clt_jw_end_array(&w);
    CLT_TRY(clt_str_check(&text));
    return clt_config_set(saved->config, key, text.text);
}

/* data.micro_batch auto: takes the size that the training found, unless the command line gives another. */
static clt_status choose_micro_batch(clt_saved_run *saved, const clt_saved_run_options *o)
{
    char text[32];
    int64_t found = clt_checkpoint_int(saved->checkpoint, "micro_batch", 0);
    if (o->training || found == 0 || clt_config_int(saved->config, "data.micro_batch") > 0 ||
        strcmp(clt_config_origin(saved->config, "data.micro_batch"), "override") == 0)
        return CLT_OK;
    snprintf(text, sizeof text, "%" PRId64, found);
    return clt_config_set(saved->config, "data.micro_batch", text);
}

/* --- all of it --- */

static clt_status fill(clt_saved_run *saved, const char *path, const clt_saved_run_options *o)
{
    CLT_TRY(o->tensors ? clt_checkpoint_open(path, &saved->checkpoint)
                       : clt_checkpoint_peek(path, &saved->checkpoint));
    saved->step = saved->checkpoint->step;
    CLT_TRY(find_folder(saved));
    CLT_TRY(open_facts(saved));
    CLT_TRY(open_config(saved, path, o));
    CLT_TRY(find_data(saved));
    CLT_TRY(choose_class_names(saved, o));
    CLT_TRY(choose_micro_batch(saved, o));
    return choose_tokenizer(saved, o);
}

static clt_status open_once(const char *path, const clt_saved_run_options *o, bool *removed,
                            clt_saved_run **out)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    *removed = false;
    CLT_TRY(clt_alloc(&saved, 1, sizeof *saved, "a saved run"));
    clt_status status = fill(saved, path, o);
    *removed = status != CLT_OK && saved->checkpoint && !clt_is_directory(saved->checkpoint->path);
    if (status == CLT_OK)
        *out = CLT_TAKE(saved);
    return status;
}

clt_status clt_saved_run_open(const char *path, const clt_saved_run_options *options, clt_saved_run **out)
{
    static const clt_saved_run_options none;
    bool removed = true; /* a training that is still running has removed it after saving a newer one */
    clt_status status = CLT_OK;
    *out = NULL;
    for (int again = 0; !*out && removed && again <= CLT_READ_AGAIN; again++)
        status = open_once(path, options ? options : &none, &removed, out);
    return status;
}

void clt_saved_run_close(clt_saved_run *saved)
{
    if (!saved)
        return;
    clt_config_destroy(saved->config);
    clt_data_facts_free(&saved->facts);
    clt_checkpoint_close(saved->checkpoint);
    free(saved);
}

void clt_saved_run_words(const clt_saved_run *saved, clt_str *out)
{
    clt_str_printf(out, "%s on ", clt_model_family_of(saved->config)->noun);
    if (saved->has_facts)
        clt_data_facts_words(&saved->facts, out);
    else
        clt_str_printf(out, "%s data", clt_config_string(saved->config, "data.type"));
}

clt_status clt_saved_run_need_data(const clt_saved_run *saved, bool eval, const char *what)
{
    return clt_data_paths_need(saved->config, eval, what, saved->path, saved->facts.folder);
}

clt_status clt_saved_run_shapes(const clt_saved_run *saved, clt_source **out)
{
    *out = NULL;
    if (!saved->has_facts)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "'%s' has no data.json with the shapes of its data: it was saved by an older cltrain; "
                 "resume the run for a step to save it again",
                 saved->path);
    return clt_source_open_facts(&saved->facts, out);
}
