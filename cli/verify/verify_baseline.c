/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the JSON of an earlier run of the checker, and compares a run with it: which checks became worse,
 * which fail as before, which pass again, which results have other bits, and which checks became slower. */
#include "cli/verify/verify_baseline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/terminal.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/json/json_seal.h"

#define BASELINE_MAX_BYTES 100000000u
enum { SHOWN_NAMES = 10 };

typedef struct entry {
    const char *device, *name, *reason; /* the JSON document owns these texts */
    clt_verify_state state;
    uint64_t bits;
    verify_speed *speeds; /* n_speeds, owned by the entry */
    int n_speeds;
    bool seen; /* the run has this check */
} entry;

struct verify_baseline {
    char *path;
    clt_json_doc *doc;
    verify_selection selection;
    entry *entries; /* sorted by device and name */
    size_t count;
    int n_devices;
    const char *version, *device, *driver; /* of cltrain; the first device's name and driver */
};

/* --- reading --- */

static clt_status refuse(const verify_baseline *b, const char *why)
{
    CLT_FAIL(CLT_EUSAGE, "the baseline '%s' %s; name a file that 'cltrain verify --json FILE' has written",
             b->path, why);
}

/* Reads a text; *out is NULL if the member is null. False: the member is missing or has another type. */
static bool text_of(const clt_json *object, const char *key, const char **out)
{
    const clt_json *value = clt_json_get(object, key);
    *out = clt_json_string_or(value, NULL);
    return *out || clt_json_typeof(value) == CLT_JSON_NULL;
}

static bool state_of(const char *name, clt_verify_state *out)
{
    for (clt_verify_state s = CLT_VERIFY_PASS; s <= CLT_VERIFY_MISTRUST; s++)
        if (strcmp(clt_verify_state_name(s), name) == 0) {
            *out = s;
            return true;
        }
    return false;
}

static bool read_entry(const clt_json *value, entry *e)
{
    e->device = clt_json_string_or(clt_json_get(value, "device"), NULL);
    e->name = clt_json_string_or(clt_json_get(value, "name"), NULL);
    e->reason = clt_json_string_or(clt_json_get(value, "reason"), NULL);
    e->bits = strtoull(clt_json_string(clt_json_get(value, "bits")), NULL, 16);
    if (!e->device || !e->name || !state_of(clt_json_string(clt_json_get(value, "state")), &e->state))
        return false;
    return verify_speeds_read(clt_json_get(value, "speeds"), &e->speeds, &e->n_speeds);
}

static int by_name(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    int devices = strcmp(a->device, b->device);
    return devices != 0 ? devices : strcmp(a->name, b->name);
}

static clt_status read_results(verify_baseline *b, const clt_json *results)
{
    if (clt_json_typeof(results) != CLT_JSON_ARRAY || !clt_json_first(results))
        return refuse(b, "has no results");
    CLT_TRY(clt_alloc(&b->entries, clt_json_count(results), sizeof *b->entries, "a baseline"));
    for (const clt_json *v = clt_json_first(results); v; v = clt_json_next(v))
        if (!read_entry(v, &b->entries[b->count++]))
            return refuse(b, "has a result that this cltrain cannot read");
    qsort(b->entries, b->count, sizeof *b->entries, by_name);
    return CLT_OK;
}

static clt_status read_head(verify_baseline *b, const clt_json *root)
{
    int64_t version = 0, seed = 0;
    const clt_json *selection = clt_json_get(root, "selection"), *devices = clt_json_get(root, "devices");
    const clt_json *quick = clt_json_get(selection, "quick");
    const clt_json *small = clt_json_get(selection, "small");
    verify_selection *s = &b->selection;
    if (!clt_json_is(clt_json_get(root, "format"), VERIFY_FORMAT) ||
        !clt_json_int(clt_json_get(root, "format_version"), &version))
        return refuse(b, "is not a result of the checker");
    if (version > VERIFY_FORMAT_VERSION)
        return refuse(b, "was written by a newer cltrain");
    if (!clt_json_int_within(clt_json_get(root, "seed"), 1, INT64_MAX, &seed) ||
        !text_of(selection, "pattern", &s->pattern) || !text_of(selection, "mode", &s->mode) ||
        !text_of(selection, "caps", &s->caps) || !text_of(selection, "shard", &s->shard) || !quick || !small)
        return refuse(b, "does not record its seed and its selection of checks");
    s->seed = (uint64_t)seed;
    s->quick = clt_json_bool(quick);
    s->small = clt_json_bool(small);
    const clt_json *first = clt_json_typeof(devices) == CLT_JSON_ARRAY ? clt_json_first(devices) : NULL;
    if (!first || !text_of(root, "cltrain_version", &b->version) ||
        !text_of(first, "device_name", &b->device) || !text_of(first, "driver", &b->driver))
        return refuse(b, "does not record its device");
    b->n_devices = (int)clt_json_count(devices);
    return CLT_OK;
}

static clt_status read_file(verify_baseline *b)
{
    CLT_FREED char *text = NULL;
    size_t size;
    CLT_TRY(clt_file_read(b->path, false, BASELINE_MAX_BYTES, CLT_EUSAGE, &text, &size));
    CLT_TRY(clt_json_parse(text, size, b->path, CLT_EUSAGE, &b->doc));
    const clt_json *root = clt_json_root(b->doc);
    CLT_TRY(read_head(b, root));
    /* checked after the head, so that the error for a newer format names the format */
    if (!clt_json_sealed(text, size, VERIFY_SEAL))
        return refuse(b, "does not match its own hash, so it was damaged or edited");
    return read_results(b, clt_json_get(root, "results"));
}

clt_status verify_baseline_open(const char *path, verify_baseline **out)
{
    CLT_SCOPED(verify_baseline) *b = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&b, 1, sizeof *b, "a baseline"));
    b->path = strdup(path);
    if (!b->path)
        CLT_FAIL(CLT_ENOMEM, "reading a baseline: out of host memory");
    CLT_TRY(read_file(b));
    *out = CLT_TAKE(b);
    return CLT_OK;
}

void verify_baseline_close(verify_baseline *b)
{
    if (!b)
        return;
    free(b->path);
    for (size_t i = 0; i < b->count; i++)
        free(b->entries[i].speeds);
    free(b->entries);
    clt_json_destroy(b->doc);
    free(b);
}

const verify_selection *verify_baseline_selection(const verify_baseline *baseline)
{
    return &baseline->selection;
}

/* --- comparing --- */

typedef struct tally {
    int same_bits, other_bits, worse, known, mended, added;
    /* numbers of checks of mode perf; unsure: number of times that vary too much */
    int timed, slower, faster, unsure;
    char names[SHOWN_NAMES][128]; /* names of the first checks with other bits */
} tally;

static entry *find(const verify_baseline *b, const char *device, const char *name)
{
    entry key = {.device = b->n_devices == 1 ? b->entries[0].device : device, .name = name};
    return bsearch(&key, b->entries, b->count, sizeof key, by_name);
}

static void say_change(terminal_ink ink, const char *word, const char *name, const char *text)
{
    CLT_SCOPED(clt_str) line = {0}, out = {0};
    clt_str_printf(&line, "%s: %s", name, text);
    text_wrap(line.text ? line.text : name, 9, 9, terminal_columns(), &out);
    terminal_say("%s%-8s%s %s", terminal_begin(1, ink), word, terminal_end(1, ink),
                 out.text ? out.text : "\n");
}

static void compare_bits(tally *n, const verify_item *now, const entry *then)
{
    if (!now->bits || !then->bits || now->bits == then->bits) {
        n->same_bits += now->bits != 0 && then->bits != 0;
        return;
    }
    if (n->other_bits < SHOWN_NAMES)
        snprintf(n->names[n->other_bits], sizeof n->names[0], "%s", now->name);
    n->other_bits++;
}

/* True if this device and the baseline's are of the same model, so that times can be compared. */
static bool is_same_device(const verify_baseline *b, const verify_report *report)
{
    return report->n_devices == 1 && b->n_devices == 1 && b->device &&
           strcmp(report->devices[0].name, b->device) == 0;
}

static void fail_item(verify_report *report, verify_item *item, const char *reason)
{
    char *copy = strdup(reason);
    report->failed = report->failed || !copy;
    free(item->reason);
    item->reason = copy;
    item->state = CLT_VERIFY_FAIL;
}

static void compare_speeds(tally *n, verify_report *report, verify_item *now, const entry *then)
{
    char text[300];
    verify_pace pace;
    n->timed++;
    const verify_speed *slow =
        verify_slowest(then->speeds, then->n_speeds, now->speeds, now->n_speeds, &pace, &n->unsure);
    if (!slow) {
        n->faster += verify_has_faster(then->speeds, then->n_speeds, now->speeds, now->n_speeds);
        return;
    }
    snprintf(text, sizeof text, "%s takes %.2f times as long (medians of processes, %.1f %% noise)",
             slow->what, pace.ratio, 100.0 * pace.noise);
    say_change(INK_BAD, "slower", now->name, text);
    fail_item(report, now, text);
    n->slower++;
}

static void compare_item(tally *n, verify_report *report, verify_item *now, entry *then, bool same_device)
{
    char text[1200];
    bool fails = verify_is_failure(now->state);
    if (then)
        then->seen = true;
    if (fails && then && verify_is_failure(then->state)) {
        n->known++;
        now->known = true;
        say_change(INK_WARNING, "known", now->name, "fails as in the baseline");
    } else if (fails || (now->state == CLT_VERIFY_SKIP && then && then->state == CLT_VERIFY_PASS)) {
        n->worse++;
        snprintf(text, sizeof text, "%s, now %s: %s",
                 then ? clt_verify_state_name(then->state) : "not in the baseline",
                 clt_verify_state_name(now->state), now->reason);
        say_change(INK_BAD, "worse", now->name, text);
    } else if (!then) {
        n->added++;
    } else if (now->state == CLT_VERIFY_PASS && verify_is_failure(then->state)) {
        n->mended++;
        say_change(INK_GOOD, "fixed", now->name, then->reason ? then->reason : "it failed in the baseline");
    } else if (now->state == CLT_VERIFY_PASS && then->state == CLT_VERIFY_PASS) {
        compare_bits(n, now, then);
        if (same_device && now->n_speeds > 0 && then->n_speeds > 0)
            compare_speeds(n, report, now, then);
    }
}

/* True if the run checked the device of this entry, or the baseline has only one device. */
static bool is_run(const verify_baseline *b, const verify_report *report, const entry *e)
{
    bool run = b->n_devices == 1;
    for (size_t i = 0; i < report->n_devices; i++)
        run = run || strcmp(report->devices[i].spec, e->device) == 0;
    return run;
}

/* Adds the checks that are only in the baseline to the report, as failures. */
static void add_missing(const verify_baseline *b, verify_report *report, tally *n)
{
    for (size_t i = 0; i < b->count; i++) {
        const entry *e = &b->entries[i];
        if (e->seen || e->state == CLT_VERIFY_SKIP || !is_run(b, report, e))
            continue;
        const clt_verify_result missing = {.index = UINT64_MAX,
                                           .name = e->name,
                                           .state = CLT_VERIFY_FAIL,
                                           .reason = "the baseline has this check, this run does not"};
        n->worse++;
        say_change(INK_BAD, "missing", e->name, missing.reason);
        verify_report_add(report, e->device, &missing);
    }
}

static void say_tally(const verify_baseline *b, const verify_report *report, const tally *n)
{
    const verify_device *now = report->n_devices > 0 ? &report->devices[0] : NULL;
    CLT_SCOPED(clt_str) line = {0};
    clt_str_printf(&line, "baseline: cltrain %s on %s, driver %s", b->version ? b->version : "?",
                   b->device ? b->device : "?", b->driver ? b->driver : "?");
    if (now && b->device &&
        (strcmp(now->name, b->device) != 0 || strcmp(now->driver, b->driver ? b->driver : "")))
        clt_str_printf(&line, "; now %s, driver %s", now->name, now->driver);
    clt_str_append(&line, "\n");
    clt_str_printf(
        &line,
        "%d worse, %d fail as before, %d fixed, %d new; results: %d with equal bits, %d with other bits",
        n->worse, n->known, n->mended, n->added, n->same_bits, n->other_bits);
    for (int i = 0; i < n->other_bits && i < SHOWN_NAMES; i++)
        clt_str_printf(&line, "%s%s", i ? ", " : ":\n  ", n->names[i]);
    if (n->other_bits > SHOWN_NAMES)
        clt_str_printf(&line, " and %d more", n->other_bits - SHOWN_NAMES);
    clt_str_append(&line, "\n");
    if (n->timed > 0)
        clt_str_printf(
            &line,
            "times: %d slower, %d faster, %d neither; %d vary too much for a change of 10 %% to be noticed\n",
            n->slower, n->faster, n->timed - n->slower - n->faster, n->unsure);
    terminal_say("%s", line.text ? line.text : "\n");
}

clt_status verify_baseline_suspects(const verify_baseline *b, const verify_report *report, clt_str *out)
{
    if (!is_same_device(b, report))
        return CLT_OK;
    for (size_t i = 0; i < report->count; i++) {
        const verify_item *now = &report->items[i];
        const entry *then = find(b, now->device, now->name);
        if (then && now->state == CLT_VERIFY_PASS && then->state == CLT_VERIFY_PASS &&
            verify_seems_slower(then->speeds, then->n_speeds, now->speeds, now->n_speeds))
            clt_str_printf(out, "%s%s", out->length ? "," : "", now->name);
    }
    if (out->failed)
        CLT_FAIL(CLT_ENOMEM, "comparing with a baseline: out of host memory");
    return CLT_OK;
}

clt_status verify_baseline_compare(const verify_baseline *b, verify_report *report, bool whole)
{
    tally n = {0};
    size_t count = report->count;
    for (size_t i = 0; i < count; i++)
        compare_item(&n, report, &report->items[i], find(b, report->items[i].device, report->items[i].name),
                     is_same_device(b, report));
    if (whole)
        add_missing(b, report, &n);
    say_tally(b, report, &n);
    if (report->failed)
        CLT_FAIL(CLT_ENOMEM, "comparing with a baseline: out of host memory");
    if (n.worse > 0)
        CLT_FAIL(CLT_ECHECK, "verify: %d check%s worse than in the baseline '%s' (seed %" PRIu64 ")", n.worse,
                 n.worse == 1 ? " is" : "s are", b->path, b->selection.seed);
    if (n.slower > 0)
        CLT_FAIL(CLT_ECHECK, "verify: %d check%s slower than in the baseline '%s'", n.slower,
                 n.slower == 1 ? " is" : "s are", b->path);
    return CLT_OK;
}
