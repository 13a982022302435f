/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain cache: lists what cltrain and the drivers store in the user's cache folders, and clears it. */
#include <stdio.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/host/cache_list.h"
#include "engine/json/json.h"

enum { MAX_CACHES = 32 };

typedef struct cache_args {
    bool clear, all, json;
} cache_args;

typedef struct cache_row {
    clt_cache cache;
    bool cleared;          /* all files that can be removed have been removed */
    uint64_t files, bytes; /* files and bytes removed from this cache */
} cache_row;

/* True if the cache must be cleared: with names, if it is one of them; without names, if it is cltrain's
 * own, or, with --all, a driver's. `programs` and `answers` are cleared together with `pocl`: `programs`
 * lists the programs that PoCL has cached, and `answers` may hold failures that PoCL's cache caused. */
static bool is_wanted(const clt_cache *cache, const cache_args *a, const args_result *r)
{
    for (int i = 0; i < r->n_operands; i++) {
        bool follows = strcmp(r->operands[i], "pocl") == 0 &&
                       (strcmp(cache->name, "programs") == 0 || strcmp(cache->name, "answers") == 0);
        if (follows || strcmp(cache->name, r->operands[i]) == 0)
            return true;
    }
    if (r->n_operands > 0)
        return false;
    return cache->owner == CLT_CACHE_OURS || (a->all && cache->owner == CLT_CACHE_DRIVER);
}

static clt_status check_names(const args_result *r)
{
    const char *names[MAX_CACHES];
    CLT_SCOPED(clt_str) all = {0};
    int count = 0;
    for (; count < MAX_CACHES && clt_cache_name(count); count++)
        clt_str_printf(&all, "%s%s", count ? ", " : "", names[count] = clt_cache_name(count));
    CLT_TRY(clt_str_check(&all));
    for (int i = 0; i < r->n_operands; i++) {
        bool known = false;
        for (int k = 0; k < count; k++)
            known = known || strcmp(names[k], r->operands[i]) == 0;
        if (!known)
            CLT_FAIL(CLT_EUSAGE, "cltrain cache: there is no cache '%s'; there are %s", r->operands[i],
                     all.text);
    }
    return CLT_OK;
}

static void print_row(const cache_row *row)
{
    const clt_cache *c = &row->cache;
    char size[32];
    terminal_say("  %-9s %10s  %s\n      %s\n", c->name,
                 c->files ? console_bytes(c->bytes, size, sizeof size) : "empty", c->path, c->purpose);
}

static void print_table(const cache_row *rows, int count)
{
    static const char *const titles[] = {
        "cltrain's own:", "of a driver ('cltrain cache --clear pocl' or '--clear --all' clears it):",
        "of drivers, for other programs too (cltrain never clears them):"};
    uint64_t own = 0;
    char size[32];
    for (int owner = 0; owner < 3; owner++) {
        bool titled = false;
        for (int i = 0; i < count; i++) {
            const clt_cache *c = &rows[i].cache;
            /* caches of other programs are only listed if they contain something */
            if ((int)c->owner != owner || (owner == CLT_CACHE_FOREIGN && c->files == 0))
                continue;
            if (!titled)
                terminal_say("%s%s\n", owner ? "\n" : "", titles[owner]);
            titled = true;
            print_row(&rows[i]);
            own += owner == CLT_CACHE_OURS ? c->bytes : 0;
        }
    }
    terminal_say("\n%s of cltrain's own; 'cltrain cache --clear' removes it, at any time\n",
                 console_bytes(own, size, sizeof size));
}

static void print_cleared(const cache_row *rows, int count)
{
    uint64_t files = 0, bytes = 0;
    char size[32];
    for (int i = 0; i < count; i++) {
        files += rows[i].files;
        bytes += rows[i].bytes;
        if (rows[i].files)
            terminal_say("  %-9s %10s in %llu file%s, from %s\n", rows[i].cache.name,
                         console_bytes(rows[i].bytes, size, sizeof size), (unsigned long long)rows[i].files,
                         CLT_PLURAL(rows[i].files), rows[i].cache.path);
    }
    if (files)
        terminal_say("removed: %s in %llu file%s\n", console_bytes(bytes, size, sizeof size),
                     (unsigned long long)files, CLT_PLURAL(files));
    else
        terminal_say("there was nothing to remove\n");
}

static const char *owner_text(clt_cache_owner owner)
{
    return owner == CLT_CACHE_OURS ? "cltrain" : owner == CLT_CACHE_DRIVER ? "driver" : "other";
}

static clt_status print_json(const cache_row *rows, int count)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_karray(&w, "caches");
    for (int i = 0; i < count; i++) {
        const clt_cache *c = &rows[i].cache;
        clt_jw_object(&w);
        clt_jw_kstring(&w, "name", c->name);
        clt_jw_kstring(&w, "owner", owner_text(c->owner));
        clt_jw_kstring(&w, "path", c->path);
        clt_jw_kstring(&w, "purpose", c->purpose);
        clt_jw_kint(&w, "files", (int64_t)c->files);
        clt_jw_kint(&w, "bytes", (int64_t)c->bytes);
        clt_jw_kbool(&w, "cleared", rows[i].cleared);
        if (rows[i].cleared || rows[i].files > 0) {
            clt_jw_kint(&w, "removed_files", (int64_t)rows[i].files);
            clt_jw_kint(&w, "removed_bytes", (int64_t)rows[i].bytes);
        }
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    return cmd_write_line("-", &text);
}

/* Lists all caches, clears the selected ones, and lists these again. failed: the last error of a cache that
 * could not be cleared completely. */
static clt_status look(cache_row *rows, int *count, const cache_args *a, const args_result *r,
                       clt_error *failed)
{
    for (int i = 0; i < MAX_CACHES && clt_cache_name(i); i++) {
        cache_row *row = &rows[*count];
        CLT_TRY(clt_cache_look(i, &row->cache));
        ++*count;
        if (!a->clear || !is_wanted(&row->cache, a, r))
            continue;
        clt_status status = clt_cache_clear(&row->cache, &row->files, &row->bytes);
        if (status != CLT_OK && status != CLT_ESTORAGE)
            return status;
        row->cleared = status == CLT_OK;
        if (status != CLT_OK)
            clt_error_take(status, failed);
        clt_cache_free(&row->cache);
        CLT_TRY(clt_cache_look(i, &row->cache));
    }
    return CLT_OK;
}

clt_status cmd_cache(cmd_context *context, int argc, char **argv)
{
    cache_args a = {0};
    const args_option options[] = {
        ARGS_FLAG("--clear", a.clear, "remove what is in the named caches, or in all of cltrain's own"),
        ARGS_FLAG("--all", a.all, "with --clear: also PoCL's cache"), ARGS_JSON(a.json), ARGS_END};
    const args_usage usage = ARGS_USAGE("cache", "[NAME...]", 0, ARGS_MAX, options,
                                        "Lists the user's cache folders with their sizes, or clears "
                                        "them.\nThey are not needed: they only make starts faster.");
    args_result r;
    cache_row rows[MAX_CACHES] = {0};
    int count = 0;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (!a.clear && (a.all || r.n_operands > 0))
        CLT_FAIL(CLT_EUSAGE, "cltrain cache: names and --all say what --clear clears; add --clear, or remove "
                             "them to see the list");
    if (a.all && r.n_operands > 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain cache: give either names or --all");
    CLT_TRY(check_names(&r));
    clt_error failed = {0};
    clt_status status = look(rows, &count, &a, &r, &failed);
    if (status == CLT_OK && a.json)
        status = print_json(rows, count);
    else if (status == CLT_OK)
        (a.clear ? print_cleared : print_table)(rows, count);
    for (int i = 0; i < count; i++)
        clt_cache_free(&rows[i].cache);
    return status == CLT_OK && failed.status != CLT_OK ? clt_error_put(&failed) : status;
}
