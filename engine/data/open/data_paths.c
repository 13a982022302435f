/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for the data of a saved config in the folders that may contain it, and rewrites the config's
 * paths. */
#include "engine/data/open/data_paths.h"

#include <stdlib.h>
#include <string.h>

#include "engine/data/data.h"
#include "engine/data/texts/text_paths.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

/* --- finding --- */

/* True if the path is a file, a folder, or a pattern that matches something. Also true for a remote path. */
static bool leads_somewhere(const char *path)
{
    CLT_SCOPED(clt_file_list) found = {0};
    if (clt_is_remote(path)) /* opening it reports what is missing, or which server does not answer */
        return true;
    if (clt_file_exists(path))
        return true;
    if (!strpbrk(path, "*?["))
        return false;
    if (clt_file_match(path, &found) != CLT_OK)
        clt_error_clear();
    return found.count > 0;
}

/* Looks for a relative path in the folders `places`. *found (to be freed): the path there that exists; NULL:
 * the path needs no change, or was not found. */
static clt_status find(const char *path, const clt_data_places *places, char **found)
{
    const char *const bases[] = {places->near, places->then};
    *found = NULL;
    for (int i = 0; i < 2 && *path && *path != '/' && !clt_is_remote(path); i++) {
        if (!bases[i] || !*bases[i])
            continue;
        if (clt_same_folder(bases[i], ".")) /* the current folder: the path needs no change */
            return CLT_OK;
        CLT_TRY(clt_path_join(bases[i], path, found));
        if (clt_is_remote(*found) ? clt_file_exists(*found) : leads_somewhere(*found))
            return CLT_OK;
        free(*found);
        *found = NULL;
    }
    return CLT_OK;
}

/* --- rewriting --- */

typedef struct rewriting {
    const clt_data_places *places;
    clt_json_writer *w;
    bool changed;
} rewriting;

/* Rewrites one entry of a list file; relative paths in a list refer to the same folder as the config's
 * paths. */
static clt_status rewrite(void *context, const char *path)
{
    rewriting *r = context;
    CLT_FREED char *found = NULL;
    CLT_TRY(find(path, r->places, &found));
    clt_jw_string(r->w, found ? found : path);
    r->changed = r->changed || found;
    return CLT_OK;
}

/* If the list file of "@LIST" is found in another folder, replaces the entry by the paths in the list. */
static clt_status rewrite_entry(rewriting *r, const char *key, const char *entry)
{
    CLT_FREED char *found = NULL;
    CLT_SCOPED(clt_str) list = {0};
    if (entry[0] != '@')
        return rewrite(r, entry);
    CLT_TRY(find(entry + 1, r->places, &found));
    if (!found) {
        clt_jw_string(r->w, entry);
        return CLT_OK;
    }
    r->changed = true;
    clt_str_printf(&list, "@%s", found);
    CLT_TRY(clt_str_check(&list));
    return clt_listed_paths(list.text, key, rewrite, r);
}

static clt_status rewrite_key(clt_config *config, const char *key, bool list, const clt_data_places *places)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    rewriting r = {places, &w, false};
    if (strcmp(clt_config_origin(config, key), "override") == 0)
        return CLT_OK;
    if (list) {
        clt_jw_array(&w);
        for (int i = 0; i < clt_config_list_count(config, key); i++)
            CLT_TRY(rewrite_entry(&r, key, clt_config_list_string(config, key, i)));
        clt_jw_end_array(&w);
    } else {
        CLT_TRY(rewrite(&r, clt_config_string(config, key)));
    }
    CLT_TRY(clt_str_check(&text));
    return r.changed ? clt_config_set(config, key, text.text) : CLT_OK;
}

clt_status clt_data_paths_find(clt_config *config, const clt_data_places *places)
{
    CLT_TRY(rewrite_key(config, "data.path", true, places));
    CLT_TRY(rewrite_key(config, "data.eval_path", true, places));
    CLT_TRY(rewrite_key(config, "data.targets", false, places));
    CLT_TRY(rewrite_key(config, "data.eval_targets", false, places));
    if (strcmp(clt_config_string(config, "data.tokenizer"), "bytes") == 0)
        return CLT_OK;
    return rewrite_key(config, "data.tokenizer", false, places);
}

/* --- lists of objects --- */

static void add_text(const char *text, clt_hash64_state *state)
{
    clt_hash64_add(state, text, strlen(text) + 1);
}

/* Adds a path and the objects there. Returns false if the path is on this machine or cannot be listed. */
static bool add_listed(const char *path, clt_hash64_state *state)
{
    add_text(path, state);
    return !*path || (clt_is_remote(path) && clt_remote_files_used() &&
                      clt_remote_files_used()->sum(path, state) == CLT_OK);
}

bool clt_data_paths_listed(const clt_config *config, char text[CLT_HASH64_TEXT])
{
    static const char *const lists[] = {"data.path", "data.eval_path"}, *const single[] = {
                                                                            "data.targets",
                                                                            "data.eval_targets"};
    clt_hash64_state state;
    bool all = true;
    CLT_KEEP_ERROR();
    clt_hash64_begin(&state);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < clt_config_list_count(config, lists[k]); i++)
            all &= add_listed(clt_config_list_string(config, lists[k], i), &state);
        all &= add_listed(clt_config_string(config, single[k]), &state);
    }
    if (clt_config_part_has(clt_config_chosen(config, "data.type"), "data.joined"))
        add_text(clt_config_bool(config, "data.joined") ? "joined" : "", &state);
    clt_hash64_text(clt_hash64_end(&state), text);
    return all;
}

clt_status clt_data_paths_compare(const clt_data_facts *facts, const clt_config *config,
                                  const clt_source *source, bool eval, char text[CLT_HASH64_TEXT])
{
    char listed[CLT_HASH64_TEXT];
    if (!facts || !source->remote || !clt_data_paths_listed(config, listed) ||
        strcmp(listed, facts->listed) != 0)
        return clt_source_read_fingerprint(source, text);
    memcpy(text, eval ? facts->eval_fingerprint : facts->fingerprint, CLT_HASH64_TEXT);
    return CLT_OK;
}

/* --- missing files --- */

static void note(const char *key, const char *path, clt_str *out)
{
    if (*path && !leads_somewhere(path[0] == '@' ? path + 1 : path))
        clt_str_printf(out, "%s%s '%s'", out->length ? ", " : "", key, path);
}

clt_status clt_data_paths_missing(const clt_config *config, bool eval, clt_str *out)
{
    bool own = clt_config_list_count(config, "data.eval_path") > 0;
    const char *key = eval && own ? "data.eval_path" : "data.path";
    const char *targets = eval && own ? "data.eval_targets" : "data.targets";
    const char *tokenizer = clt_config_string(config, "data.tokenizer");
    for (int i = 0; i < clt_config_list_count(config, key); i++)
        note(key, clt_config_list_string(config, key, i), out);
    note(targets, clt_config_string(config, targets), out);
    if (strcmp(tokenizer, "bytes") != 0)
        note("data.tokenizer", tokenizer, out);
    return clt_str_check(out);
}

clt_status clt_data_paths_need(const clt_config *config, bool eval, const char *what, const char *run,
                               const char *folder)
{
    bool known = folder && *folder;
    CLT_SCOPED(clt_str) missing = {0};
    CLT_TRY(clt_data_paths_missing(config, eval, &missing));
    if (!missing.length)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "%s '%s' needs its %s data, which is not where it was: %s%s%s%s; give its new place with %.*s=…",
             what, run, eval ? "evaluation" : "training", missing.text,
             known ? " (the run was started in '" : "", known ? folder : "", known ? "')" : "",
             (int)strcspn(missing.text, " "), missing.text); /* the first key in the list of missing files */
}
