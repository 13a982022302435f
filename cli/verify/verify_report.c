/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the checker's results, writes them as JSON and JUnit XML, and counts the reasons of skips. */
#include "cli/verify/verify_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/cmd.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/base/hash.h"
#include "engine/json/json_seal.h"
#include "engine/json/json.h"

void verify_report_device(verify_report *report, const char *spec)
{
    if (clt_grow(&report->devices, &report->devices_capacity, report->n_devices + 1, sizeof *report->devices,
                 "devices") != CLT_OK) {
        report->failed = true;
        return;
    }
    for (size_t i = 0; i < report->places_capacity; i++)
        report->places[i] = 0;
    report->rounds = 0;
    snprintf(report->devices[report->n_devices++].spec, sizeof report->devices->spec, "%s", spec);
}

void verify_report_opened(verify_report *report, const ocl_device_desc *desc)
{
    if (report->failed)
        return;
    verify_device *device = &report->devices[report->n_devices - 1];
    snprintf(device->spec, sizeof device->spec, "%s", desc->spec);
    snprintf(device->name, sizeof device->name, "%s", desc->name);
    snprintf(device->driver, sizeof device->driver, "%s", desc->driver);
    snprintf(device->platform, sizeof device->platform, "%s", desc->platform);
}

static void replace(verify_report *report, char **text, const char *with)
{
    free(*text);
    *text = strdup(with ? with : "");
    report->failed = report->failed || !*text;
}

/* Copies state, numbers and texts of a result. */
static void take_result(verify_report *report, verify_item *item, const clt_verify_result *result)
{
    char reason[4400];
    bool later = result->round > 1 && verify_is_failure(result->state);
    snprintf(reason, sizeof reason, "in round %llu, with seed %llu: %.4200s",
             (unsigned long long)result->round, (unsigned long long)result->seed,
             result->reason ? result->reason : "");
    item->state = result->state;
    item->error = result->error;
    item->limit = result->limit;
    item->ms = result->ms;
    if (verify_is_failure(result->state))
        item->round = result->round;
    replace(report, &item->reason, later ? reason : result->reason);
    replace(report, &item->repeat, result->repeat);
}

static void add_speeds(verify_report *report, verify_item *item, const clt_verify_result *result)
{
    if (verify_speeds_add(&item->speeds, &item->n_speeds, result->speeds, result->n_speeds) != CLT_OK)
        report->failed = true;
}

/* The check's result of an earlier round, or NULL. */
static verify_item *earlier(verify_report *report, const clt_verify_result *result)
{
    size_t known = report->places_capacity;
    if (result->round == 0) /* a check that was not run */
        return NULL;
    if (clt_grow(&report->places, &report->places_capacity, (size_t)result->index + 1, sizeof *report->places,
                 "places of results") != CLT_OK) {
        report->failed = true;
        return NULL;
    }
    memset(report->places + known, 0, (report->places_capacity - known) * sizeof *report->places);
    size_t place = report->places[result->index];
    return place > 0 ? &report->items[place - 1] : NULL;
}

bool verify_report_add(verify_report *report, const char *device, const clt_verify_result *result)
{
    verify_item *item = earlier(report, result);
    bool failure = verify_is_failure(result->state), first = !item || (failure && item->failures == 0);
    if (!item) {
        if (report->failed || clt_grow(&report->items, &report->capacity, report->count + 1,
                                       sizeof *report->items, "results") != CLT_OK) {
            report->failed = true;
            return true;
        }
        item = &report->items[report->count++];
        *item = (verify_item){.device = strdup(device),
                              .name = strdup(result->name),
                              .run = (int)report->n_devices,
                              .index = result->index,
                              .bits = result->bits};
        report->failed = report->failed || !item->device || !item->name;
        if (result->round > 0)
            report->places[result->index] = report->count;
    }
    if (first)
        take_result(report, item, result);
    report->rounds = result->round > report->rounds ? result->round : report->rounds;
    item->runs += result->state != CLT_VERIFY_SKIP;
    item->failures += failure;
    add_speeds(report, item, result);
    return first;
}

void verify_report_repeat(verify_report *report, const clt_verify_result *result)
{
    for (size_t i = 0; i < report->count && !report->failed; i++) {
        verify_item *item = &report->items[i];
        if (item->run != (int)report->n_devices || strcmp(item->name, result->name) != 0)
            continue;
        if (verify_is_failure(result->state))
            take_result(report, item, result);
        add_speeds(report, item, result);
        return;
    }
}

clt_status verify_report_curve(verify_report *report, const double (*numbers)[2], int steps)
{
    if (report->failed || report->count == 0 || steps == 0)
        return CLT_OK;
    verify_item *item = &report->items[report->count - 1];
    free(item->curve);
    item->curve = NULL;
    CLT_TRY(clt_alloc(&item->curve, (size_t)steps, sizeof *item->curve, "the losses of a training"));
    memcpy(item->curve, numbers, (size_t)steps * sizeof *item->curve);
    item->curve_steps = steps;
    return CLT_OK;
}

void verify_report_count(const verify_report *report, int count[5])
{
    for (size_t i = 0; i < report->count; i++)
        if (report->items[i].run == (int)report->n_devices)
            count[report->items[i].state]++;
}

void verify_report_free(verify_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        free(report->items[i].device);
        free(report->items[i].name);
        free(report->items[i].reason);
        free(report->items[i].repeat);
        free(report->items[i].speeds);
        free(report->items[i].curve);
    }
    free(report->items);
    free(report->devices);
    free(report->places);
    memset(report, 0, sizeof *report);
}

bool verify_is_failure(clt_verify_state state)
{
    return state != CLT_VERIFY_PASS && state != CLT_VERIFY_SKIP;
}

static void json_curve(clt_json_writer *w, const char *key, const verify_item *item, int number)
{
    clt_jw_karray(w, key);
    for (int i = 0; i < item->curve_steps; i++)
        clt_jw_double(w, item->curve[i][number]);
    clt_jw_end_array(w);
}

static void json_item(clt_json_writer *w, const verify_item *item)
{
    char bits[CLT_HASH64_TEXT];
    clt_jw_object(w);
    clt_jw_kstring(w, "device", item->device);
    clt_jw_kstring(w, "name", item->name);
    clt_jw_kstring(w, "state", clt_verify_state_name(item->state));
    if (*item->reason)
        clt_jw_kstring(w, "reason", item->reason);
    clt_jw_kdouble(w, "error", item->error);
    clt_jw_kdouble(w, "limit", item->limit);
    clt_jw_kdouble(w, "ms", item->ms);
    if (item->runs > 1) {
        clt_jw_kint(w, "runs", (int64_t)item->runs);
        clt_jw_kint(w, "failures", (int64_t)item->failures);
    }
    if (item->runs > 1 && item->round > 0)
        clt_jw_kint(w, "round", (int64_t)item->round);
    if (item->bits)
        clt_jw_kstring(w, "bits", clt_hash64_text(item->bits, bits));
    if (*item->repeat)
        clt_jw_kstring(w, "repeat", item->repeat);
    if (item->n_speeds > 0)
        verify_speeds_json(w, item->speeds, item->n_speeds);
    if (item->curve) {
        json_curve(w, "losses", item, 0);
        json_curve(w, "gradient_norms", item, 1);
    }
    clt_jw_end_object(w);
}

static void json_selection(clt_json_writer *w, const verify_selection *s)
{
    clt_jw_kint(w, "seed", (int64_t)s->seed);
    clt_jw_kobject(w, "selection");
    clt_jw_kstring(w, "pattern", s->pattern);
    clt_jw_kstring(w, "mode", s->mode);
    clt_jw_kstring(w, "caps", s->caps);
    clt_jw_kstring(w, "shard", s->shard);
    clt_jw_kbool(w, "quick", s->quick);
    clt_jw_kbool(w, "small", s->small);
    clt_jw_end_object(w);
}

clt_status verify_report_json(const verify_report *report, const verify_selection *selection,
                              const char *path)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 2);
    if (!path)
        return CLT_OK;
    clt_jw_object(&w);
    clt_jw_kstring(&w, "format", VERIFY_FORMAT);
    clt_jw_kint(&w, "format_version", VERIFY_FORMAT_VERSION);
    clt_jw_kstring(&w, "cltrain_version", CLT_VERSION);
    json_selection(&w, selection);
    if (report->rounds > 1)
        clt_jw_kint(&w, "rounds", (int64_t)report->rounds);
    clt_jw_karray(&w, "devices");
    for (size_t i = 0; i < report->n_devices; i++) {
        const verify_device *d = &report->devices[i];
        clt_jw_object(&w);
        clt_jw_kstring(&w, "device", d->spec);
        clt_jw_kstring(&w, "device_name", d->name);
        clt_jw_kstring(&w, "driver", d->driver);
        clt_jw_kstring(&w, "platform", d->platform);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    clt_jw_karray(&w, "results");
    for (size_t i = 0; i < report->count; i++)
        json_item(&w, &report->items[i]);
    clt_jw_end_array(&w);
    CLT_TRY(clt_json_seal(&out, 0, VERIFY_SEAL));
    return cmd_write_str(path, &out);
}

static void xml(clt_str *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            clt_str_append(out, "&amp;");
            break;
        case '<':
            clt_str_append(out, "&lt;");
            break;
        case '>':
            clt_str_append(out, "&gt;");
            break;
        case '"':
            clt_str_append(out, "&quot;");
            break;
        case '\n':
            clt_str_append(out, "&#10;");
            break;
        default:
            if ((unsigned char)*text >= 0x20) /* XML 1.0 allows no other control characters */
                clt_str_append_n(out, text, 1);
        }
}

static void junit_case(const verify_item *item, clt_str *out)
{
    char seconds[CLT_NUMBER_TEXT];
    clt_str_append(out, "  <testcase classname=\"cltrain.");
    xml(out, item->device);
    clt_str_append(out, "\" name=\"");
    xml(out, item->name);
    clt_str_printf(out, "\" time=\"%s\"", clt_double_text(item->ms / 1000, seconds));
    if (item->state == CLT_VERIFY_PASS) {
        clt_str_append(out, "/>\n");
        return;
    }
    bool skipped = item->state == CLT_VERIFY_SKIP || item->known;
    clt_str_append(out, skipped ? "><skipped message=\"" : "><failure message=\"");
    clt_str_printf(out, "%s%s: ", clt_verify_state_name(item->state),
                   item->known ? " as in the baseline" : "");
    xml(out, item->reason);
    if (skipped) {
        clt_str_append(out, "\"/></testcase>\n");
        return;
    }
    clt_str_append(out, "\">");
    xml(out, item->repeat);
    clt_str_append(out, "</failure></testcase>\n");
}

clt_status verify_report_junit(const verify_report *report, const verify_selection *selection,
                               const char *path)
{
    CLT_SCOPED(clt_str) out = {0};
    int failures = 0, skipped = 0;
    if (!path)
        return CLT_OK;
    for (size_t i = 0; i < report->count; i++) {
        const verify_item *item = &report->items[i];
        failures += verify_is_failure(item->state) && !item->known;
        skipped += item->state == CLT_VERIFY_SKIP || item->known;
    }
    clt_str_printf(&out,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"cltrain verify, seed "
                   "%llu\" tests=\"%zu\" failures=\"%d\" errors=\"0\" skipped=\"%d\">\n",
                   (unsigned long long)selection->seed, report->count, failures, skipped);
    for (size_t i = 0; i < report->count; i++)
        junit_case(&report->items[i], &out);
    clt_str_append(&out, "</testsuite>\n");
    return cmd_write_str(path, &out);
}

/* Sorts by device, then by position in the list of checks. */
static int by_index(const void *a, const void *b)
{
    const verify_item *x = a, *y = b;
    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

clt_status verify_report_sort(verify_report *report)
{
    if (report->failed)
        CLT_FAIL(CLT_ENOMEM, "collecting the checker's results: out of host memory");
    if (report->count > 0)
        qsort(report->items, report->count, sizeof *report->items, by_index);
    return CLT_OK;
}

/* --- skips --- */

#define SHOWN_REASONS 6

typedef struct skip_reason {
    const char *text;
    size_t count;
} skip_reason;

/* The reason without the name of the variant before it, such as "variant tile: " or "backend lane: ". */
static const char *plain_reason(const char *reason)
{
    static const char *const fronts[] = {"variant ", "backend "};
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        const char *colon = strstr(reason, ": ");
        if (strncmp(reason, fronts[i], strlen(fronts[i])) == 0 && colon)
            return colon + 2;
    }
    return reason;
}

static int by_count(const void *a, const void *b)
{
    const skip_reason *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->text, y->text);
}

/* Counts the skipped checks of each reason, the most frequent first. Returns the number of different
 * reasons; `reasons` has room for one per check. */
static size_t collect_reasons(const verify_report *report, skip_reason *reasons)
{
    size_t n = 0;
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].state != CLT_VERIFY_SKIP)
            continue;
        const char *text = plain_reason(report->items[i].reason);
        size_t at = 0;
        while (at < n && strcmp(reasons[at].text, text) != 0)
            at++;
        if (at == n)
            reasons[n++] = (skip_reason){.text = text};
        reasons[at].count++;
    }
    qsort(reasons, n, sizeof *reasons, by_count);
    return n;
}

void verify_report_skips(const verify_report *report, bool own_forms)
{
    CLT_FREED skip_reason *reasons = NULL;
    size_t left = 0;
    if (report->failed || report->count == 0 ||
        clt_alloc(&reasons, report->count, sizeof *reasons, "reasons of skipped checks") != CLT_OK) {
        clt_error_clear();
        return;
    }
    size_t n = collect_reasons(report, reasons);
    clt_str text = {0};
    for (size_t i = 0; i < n && i < SHOWN_REASONS; i++) {
        clt_str_printf(&text, "%s%5zu  ", i == 0 ? "skipped:\n" : "", reasons[i].count);
        text_wrap(reasons[i].text, 7, 7, terminal_columns(), &text);
    }
    for (size_t i = SHOWN_REASONS; i < n; i++)
        left += reasons[i].count;
    if (left > 0)
        clt_str_printf(&text, "%5zu  for %zu other reasons; -v prints each check with its reason\n", left,
                       n - SHOWN_REASONS);
    if (n > 0 && own_forms)
        text_wrap(
            "--quick leaves out kernels that this device does not use; 'cltrain verify' checks all of them",
            0, 2, terminal_columns(), &text);
    table_print(&text);
}
