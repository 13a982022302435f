/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain data fetch: downloads published data sets into a folder and shows the progress. */
#include "cli/data/data_fetch.h"
#include "cli/screen/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/open/fetch.h"

typedef struct fetch_view {
    const cmd_context *context;
    const char *set;
    console *console;
} fetch_view;

static clt_status on_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    fetch_view *v = context;
    char text[160], some[32], all[32];
    if (v->context->stop && atomic_load(v->context->stop))
        CLT_FAIL(
            CLT_EINTERRUPTED,
            "stopped by a signal; what was downloaded so far is kept; 'cltrain data fetch %s' resumes it",
            v->set);
    snprintf(text, sizeof text, "%.40s: %s of %s", what, console_bytes(done, some, sizeof some),
             console_bytes(total, all, sizeof all));
    console_observer(v->console).progress(v->console, text, (int64_t)done, (int64_t)total);
    return CLT_OK;
}

static void on_message(void *context, const char *line)
{
    fetch_view *v = context;
    console_clear(v->console);
    terminal_say("%s\n", line);
}

static void print_sets(void)
{
    char size[32];
    terminal_say("data sets that 'cltrain data fetch NAME' puts into data/NAME:\n\n");
    for (const clt_fetch_set *set = clt_fetch_sets; set->name; set++)
        terminal_say_item(36, "  %-21s %10s  %s\n", set->name,
                          set->kind == CLT_FETCH_VOLUMES
                              ? "no network"
                              : console_bytes(clt_fetch_bytes(clt_fetch_sets, set), size, sizeof size),
                          set->help);
    terminal_say("\nEvery file that is downloaded is compared with its published SHA-256.\n");
}

static clt_status find_set(const char *name, const clt_fetch_set **out)
{
    const char *names[64];
    CLT_SCOPED(clt_str) list = {0};
    size_t count = 0;
    *out = clt_fetch_find(clt_fetch_sets, name);
    if (*out)
        return CLT_OK;
    for (const clt_fetch_set *set = clt_fetch_sets; set->name && count < 64; set++) {
        clt_str_printf(&list, "%s%s", count ? ", " : "", set->name);
        names[count++] = set->name;
    }
    const char *near = clt_nearest_name(name, names, count);
    CLT_TRY(clt_str_check(&list));
    CLT_FAIL(CLT_EUSAGE, "cltrain data fetch: there is no set '%s'%s%s%s; there are %s", name,
             near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", list.text);
}

static void print_result(const clt_fetch_set *set, const char *folder, bool usual, const clt_fetch_result *r)
{
    char size[32];
    bool all = r->files > 0 && r->there == r->files;
    terminal_say("%s: %d file%s, %s, %s\n", folder, r->files, CLT_PLURAL(r->files),
                 r->bytes ? console_bytes(r->bytes, size, sizeof size) : "checked",
                 all                              ? "all files exist already and are correct"
                 : set->kind == CLT_FETCH_VOLUMES ? "made"
                                                  : "compared with the published SHA-256");
    if (set->train && usual)
        terminal_say("train on it: %s\n", set->train);
}

clt_status data_fetch(cmd_context *context, int argc, char **argv)
{
    const char *out = NULL, *from = NULL;
    const args_option options[] = {
        ARGS_TEXT("--out", "DIR", out, "the folder (data/NAME)"),
        ARGS_TEXT(
            "--from", "PATH", from,
            "a folder or file that holds a copy, or the URL of a folder, in place of the usual sources"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("data fetch", "[NAME]", 0, 1, options,
                   "Downloads a published data set into data/NAME and compares it with its published "
                   "hash, or makes one (volumes-sample);\nwithout a NAME lists the sets. An interrupted "
                   "download is resumed.");
    const clt_fetch_set *set;
    clt_fetch_result result;
    console c;
    char folder[128];
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    if (r.n_operands == 0) {
        if (out || from)
            CLT_FAIL(CLT_EUSAGE, "cltrain data fetch: name the set; 'cltrain data fetch' lists them");
        print_sets();
        return CLT_OK;
    }
    CLT_TRY(find_set(r.operands[0], &set));
    snprintf(folder, sizeof folder, "data/%s", set->name);
    fetch_view view = {.context = context, .set = set->name, .console = &c};
    clt_fetch_options o = {.sets = clt_fetch_sets,
                           .set = set,
                           .out = out ? out : folder,
                           .from = from,
                           .threads = clt_cpu_count(),
                           .progress = on_progress,
                           .message = on_message,
                           .context = &view};
    console_init(&c, context);
    clt_status status = clt_fetch(&o, &result);
    console_close(&c);
    if (status == CLT_OK)
        print_result(set, o.out, !out, &result);
    return status;
}
