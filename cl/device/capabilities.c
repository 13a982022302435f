/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a device's answers, and writing and reading its text. Pure: no file, no device. */
#include "cl/device/capabilities.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/kernels/program_source.h"
#include "engine/base/hash.h"
#include "engine/files/fileio.h"
#include "engine/files/process.h"
#include "engine/json/json.h"
#include "engine/json/json_seal.h"

#define FORMAT_NAME "cltrain-answers"
#define FORMAT_VERSION 5
#define SEAL "hash"

static const char *const answer_names[OCL_ANSWER_COUNT] = {
    "not asked", "yes", "no", "masked", "wrong", "refused", "failed", "crashed", "hung"};

const char *ocl_answer_name(ocl_answer answer)
{
    return (unsigned)answer < OCL_ANSWER_COUNT ? answer_names[answer] : "?";
}

bool ocl_answer_from_name(const char *name, ocl_answer *out)
{
    for (int i = 0; i < OCL_ANSWER_COUNT; i++) {
        if (strcmp(name, answer_names[i]) == 0) {
            *out = (ocl_answer)i;
            return true;
        }
    }
    return false;
}

const char *ocl_style_name(ocl_style style)
{
    return style == OCL_STYLE_LANES ? "lanes" : style == OCL_STYLE_GROUPS ? "groups" : "asked";
}

bool ocl_style_from_name(const char *name, ocl_style *out)
{
    static const ocl_style all[] = {OCL_STYLE_ASKED, OCL_STYLE_LANES, OCL_STYLE_GROUPS};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(name, ocl_style_name(all[i])) == 0) {
            *out = all[i];
            return true;
        }
    }
    return false;
}

bool ocl_answer_is_loss(ocl_answer answer)
{
    return answer >= OCL_ANSWER_WRONG;
}

/* --- identity --- */

static void add_text(clt_hash64_state *state, const char *text)
{
    text = text ? text : "";
    clt_hash64_add(state, text, strlen(text) + 1);
}

clt_status ocl_capabilities_key(const ocl_device_desc *device, ocl_style style, uint64_t *key)
{
    /* a device with emulated units answers differently, and a preloaded library may change the driver's
     * behaviour */
    static const char *const variables[] = {"CLTRAIN_EMULATE", "LD_PRELOAD"};
    clt_hash64_state state;
    uint64_t kernels;
    CLT_TRY(ocl_kernels_hash(&kernels));
    clt_hash64_begin(&state);
    add_text(&state, FORMAT_NAME);
    clt_hash64_add(&state, &kernels, sizeof kernels);
    add_text(&state, CLT_VERSION);
    add_text(&state, device->platform);
    add_text(&state, device->vendor);
    add_text(&state, device->name);
    add_text(&state, device->driver);
    add_text(&state, device->version);
    clt_hash64_add(&state, &device->compute_units, sizeof device->compute_units);
    clt_hash64_add(&state, &device->quirks, sizeof device->quirks);
    if (device->limits.workgroup > 0 || device->limits.local > 0) { /* other limits do not change answers */
        clt_hash64_add(&state, &device->limits.workgroup, sizeof device->limits.workgroup);
        clt_hash64_add(&state, &device->limits.local, sizeof device->limits.local);
    }
    if (style != OCL_STYLE_ASKED)
        add_text(&state, ocl_style_name(style));
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        add_text(&state, getenv(variables[i]));
    *key = clt_hash64_end(&state);
    return CLT_OK;
}

/* --- items: one question and its answer each --- */

const ocl_item *ocl_capabilities_find(const ocl_capabilities *capabilities, const char *name)
{
    for (int i = 0; i < capabilities->count; i++)
        if (strcmp(capabilities->items[i].name, name) == 0)
            return &capabilities->items[i];
    return NULL;
}

clt_status ocl_capabilities_set(ocl_capabilities *capabilities, const ocl_item *item)
{
    for (int i = 0; i < capabilities->count; i++) {
        if (strcmp(capabilities->items[i].name, item->name) == 0) {
            capabilities->items[i] = *item;
            return CLT_OK;
        }
    }
    if (capabilities->count == OCL_ITEMS_MAX)
        CLT_FAIL(CLT_EINTERNAL, "asking a device for its capabilities: more than %d questions",
                 OCL_ITEMS_MAX);
    capabilities->items[capabilities->count++] = *item;
    return CLT_OK;
}

/* Names of self-tests have a prefix; probes are named after their capability. */
bool ocl_item_is_test(const ocl_item *item)
{
    return strncmp(item->name, OCL_TEST_PREFIX, strlen(OCL_TEST_PREFIX)) == 0;
}

bool ocl_capabilities_lost_test(const ocl_capabilities *capabilities)
{
    for (int i = 0; i < capabilities->count; i++)
        if (ocl_item_is_test(&capabilities->items[i]) && ocl_answer_is_loss(capabilities->items[i].answer))
            return true;
    return false;
}

uint32_t ocl_capabilities_caps(const ocl_capabilities *capabilities, uint32_t emulated, bool tests)
{
    uint32_t caps = 0;
    for (int cap = 0; cap < OCL_CAP_COUNT; cap++) {
        const ocl_item *item = ocl_capabilities_find(capabilities, ocl_cap_name(cap));
        if (item != NULL && item->answer == OCL_ANSWER_YES)
            caps |= 1u << cap;
    }
    caps |= emulated;
    for (int i = 0; i < capabilities->count && tests; i++)
        if (ocl_item_is_test(&capabilities->items[i]) && capabilities->items[i].answer != OCL_ANSWER_YES)
            caps &= ~capabilities->items[i].drops;
    return caps;
}

static bool are_tested(const ocl_capabilities *capabilities, uint32_t caps)
{
    for (int i = 0; i < capabilities->n_tested; i++)
        if (capabilities->tested[i] == caps)
            return true;
    return false;
}

void ocl_capabilities_note_asked(ocl_capabilities *capabilities, uint32_t mask, uint32_t emulated, bool tests)
{
    uint32_t caps = ocl_capabilities_caps(capabilities, emulated, tests) & mask;
    capabilities->probed |= mask;
    if (!tests || are_tested(capabilities, caps))
        return;
    if (capabilities->n_tested == OCL_TESTED_MAX) /* the list is full: the oldest entry is dropped */
        memmove(capabilities->tested, capabilities->tested + 1,
                --capabilities->n_tested * sizeof capabilities->tested[0]);
    capabilities->tested[capabilities->n_tested++] = caps;
}

bool ocl_capabilities_were_asked(const ocl_capabilities *capabilities, uint32_t mask, uint32_t emulated,
                                 bool tests)
{
    return (mask & ~capabilities->probed) == 0 &&
           (!tests || are_tested(capabilities, ocl_capabilities_caps(capabilities, emulated, tests) & mask));
}

static bool is_named(const ocl_item *item, const char *start)
{
    return strncmp(item->name, start, strlen(start)) == 0;
}

void ocl_capabilities_sizes(const ocl_capabilities *capabilities, ocl_device_desc *device)
{
    for (int i = 0; i < capabilities->count; i++) {
        const ocl_item *item = &capabilities->items[i];
        if (item->answer != OCL_ANSWER_YES)
            continue;
        if (is_named(item, OCL_ITEM_LOCAL_MEMORY) && item->value > device->local_proven_bytes)
            device->local_proven_bytes = item->value;
        if (is_named(item, OCL_ITEM_RETARGETED_MEMORY) && item->value > device->local_retargeted_bytes)
            device->local_retargeted_bytes = item->value;
        if (is_named(item, OCL_ITEM_LOCAL_ARGUMENT) && item->value > device->local_argument_bytes)
            device->local_argument_bytes = item->value;
        if (strcmp(item->name, OCL_ITEM_LOCAL_REPORT) == 0)
            device->local_report_factor = item->value;
        if (strcmp(item->name, OCL_ITEM_GROUP_LIMIT) == 0)
            device->kernel_group_limit = item->value;
        if (strcmp(item->name, OCL_ITEM_LARGER_GROUPS) == 0)
            device->kernel_group_limit = device->larger_groups = item->value;
    }
    ocl_size_limits_apply(device);
}

const ocl_item *ocl_capabilities_refusal(const ocl_capabilities *capabilities, bool tests)
{
    for (int i = 0; i < capabilities->count; i++) {
        const ocl_item *item = &capabilities->items[i];
        bool floor =
            strcmp(item->name, OCL_ITEM_BASIC) == 0 || (tests && ocl_item_is_test(item) && item->drops == 0);
        if (floor && ocl_answer_is_loss(item->answer))
            return item;
    }
    return NULL;
}

ocl_cap_report ocl_capabilities_report(const ocl_capabilities *capabilities, int cap)
{
    ocl_cap_report report = {.answer = OCL_ANSWER_NOT_ASKED};
    const ocl_item *item = ocl_capabilities_find(capabilities, ocl_cap_name(cap));
    if (item != NULL) {
        report.answer = item->answer;
        snprintf(report.reason, sizeof report.reason, "%s", item->reason);
    }
    if (ocl_answer_is_loss(report.answer))
        return report;
    for (int i = 0; i < capabilities->count; i++) {
        item = &capabilities->items[i];
        if (!ocl_item_is_test(item) || !(item->drops >> cap & 1u) || item->answer == OCL_ANSWER_YES)
            continue;
        report.answer = item->answer;
        snprintf(report.reason, sizeof report.reason, "self-test %s: %.180s",
                 item->name + strlen(OCL_TEST_PREFIX), item->reason);
        break;
    }
    return report;
}

/* --- a broken device among several of one model --- */

clt_status ocl_capabilities_apply_refusal(ocl_capabilities *capabilities, const char *spec)
{
    for (int i = 0; i < capabilities->n_refused; i++)
        if (strcmp(capabilities->refused[i].spec, spec) == 0)
            return ocl_capabilities_set(capabilities, &capabilities->refused[i].item);
    return CLT_OK;
}

static void forget_refusal(ocl_capabilities *capabilities, const char *spec)
{
    for (int i = 0; i < capabilities->n_refused; i++)
        if (strcmp(capabilities->refused[i].spec, spec) == 0)
            capabilities->refused[i--] = capabilities->refused[--capabilities->n_refused];
}

void ocl_capabilities_note(const ocl_capabilities *capabilities, const char *spec, ocl_capabilities *file)
{
    const ocl_item *failed = ocl_capabilities_refusal(capabilities, true);
    if (failed == NULL) {
        int n = file->n_refused;
        ocl_refused_device refused[OCL_REFUSED_MAX];
        memcpy(refused, file->refused, sizeof refused);
        *file = *capabilities;
        memcpy(file->refused, refused, sizeof refused);
        file->n_refused = n;
    }
    file->key = capabilities->key;
    forget_refusal(file, spec);
    if (failed != NULL && file->n_refused < OCL_REFUSED_MAX) {
        ocl_refused_device *entry = &file->refused[file->n_refused++];
        snprintf(entry->spec, sizeof entry->spec, "%s", spec);
        entry->item = *failed;
    }
}

/* --- what the driver refused --- */

bool ocl_unsupported_any(const ocl_unsupported *unsupported)
{
    return unsupported->caps != 0 || unsupported->count > 0;
}

bool ocl_unsupported_has(const ocl_unsupported *unsupported, const ocl_unsupported_variant *d)
{
    for (int i = 0; i < unsupported->count; i++)
        if (strcmp(unsupported->list[i].variant, d->variant) == 0 &&
            strcmp(unsupported->list[i].form, d->form) == 0)
            return true;
    return false;
}

bool ocl_unsupported_equal(const ocl_unsupported *a, const ocl_unsupported *b)
{
    bool equal = a->caps == b->caps && a->count == b->count;
    for (int i = 0; i < a->count && equal; i++)
        equal = ocl_unsupported_has(b, &a->list[i]);
    return equal;
}

void ocl_unsupported_add(ocl_unsupported *unsupported, const ocl_unsupported *more)
{
    unsupported->caps |= more->caps;
    for (int i = 0; i < more->count; i++)
        if (unsupported->count < OCL_GIVEN_UP_MAX && !ocl_unsupported_has(unsupported, &more->list[i]))
            unsupported->list[unsupported->count++] = more->list[i];
}

/* --- text --- */

static bool is_kept(const ocl_item *item)
{
    return item->answer != OCL_ANSWER_FAILED && item->answer != OCL_ANSWER_MASKED &&
           item->answer != OCL_ANSWER_NOT_ASKED;
}

static void print_bits(clt_json_writer *w, const char *key, uint32_t bits)
{
    char text[16];
    snprintf(text, sizeof text, "%08" PRIx32, bits);
    clt_jw_kstring(w, key, text);
}

/* Writes the members of an object that is already open. */
static void print_item(clt_json_writer *w, const ocl_item *item)
{
    clt_jw_kstring(w, "item", item->name);
    clt_jw_kstring(w, "answer", ocl_answer_name(item->answer));
    print_bits(w, "drops", item->drops);
    clt_jw_kint(w, "value", (int64_t)item->value);
    clt_jw_kstring(w, "reason", item->reason);
}

static void print_tested(clt_json_writer *w, const uint32_t *tested, int count)
{
    clt_jw_karray(w, "tested");
    for (int i = 0; i < count; i++)
        clt_jw_int(w, tested[i]);
    clt_jw_end_array(w);
}

static void print_refused(clt_json_writer *w, const ocl_capabilities *capabilities)
{
    clt_jw_karray(w, "refused");
    for (int i = 0; i < capabilities->n_refused; i++) {
        if (!is_kept(&capabilities->refused[i].item))
            continue;
        clt_jw_object(w);
        clt_jw_kstring(w, "spec", capabilities->refused[i].spec);
        print_item(w, &capabilities->refused[i].item);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

void ocl_unsupported_write(const ocl_unsupported *unsupported, clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_karray(w, "capabilities");
    for (int cap = 0; cap < OCL_CAP_COUNT; cap++)
        if (unsupported->caps >> cap & 1u)
            clt_jw_string(w, ocl_cap_name(cap));
    clt_jw_end_array(w);
    clt_jw_karray(w, "variants");
    for (int i = 0; i < unsupported->count; i++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "variant", unsupported->list[i].variant);
        clt_jw_kstring(w, "form", unsupported->list[i].form);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

clt_status ocl_capabilities_print(const ocl_capabilities *capabilities, const ocl_device_desc *device,
                                  clt_str *out)
{
    char text[64], boot[64];
    clt_json_writer w = clt_json_writer_make(out, 2);
    uint32_t probed = capabilities->probed;
    int n_tested = capabilities->n_tested;
    size_t from = out->length;
    clt_boot_identity(boot, sizeof boot);
    for (int i = 0; i < capabilities->count; i++)
        if (!is_kept(&capabilities->items[i]))
            n_tested = probed = 0; /* the next start must ask some questions again */
    clt_jw_object(&w);
    clt_jw_kstring(&w, "format", FORMAT_NAME);
    clt_jw_kint(&w, "version", FORMAT_VERSION);
    clt_jw_kstring(&w, "key", clt_hash64_text(capabilities->key, text));
    clt_jw_kstring(&w, "device", device->name);
    clt_jw_kstring(&w, "driver", device->driver);
    clt_jw_kstring(&w, "boot", boot);
    print_bits(&w, "probed", probed);
    print_tested(&w, capabilities->tested, n_tested);
    print_refused(&w, capabilities);
    clt_jw_key(&w, "denials");
    ocl_unsupported_write(&capabilities->unsupported, &w);
    clt_jw_karray(&w, "answers");
    for (int i = 0; i < capabilities->count; i++) {
        if (!is_kept(&capabilities->items[i]))
            continue;
        clt_jw_object(&w);
        print_item(&w, &capabilities->items[i]);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    return clt_json_seal(out, from, SEAL);
}

/* Reads a member that must be a text of fewer than `size` bytes. */
static clt_status take_string(const clt_json *object, const char *key, const char *source, char *out,
                              size_t size)
{
    if (!clt_json_copy_string(clt_json_get(object, key), out, size))
        CLT_FAIL(CLT_EDATA, "%s: '%s' is missing or not a short text", source, key);
    return CLT_OK;
}

static clt_status take_bits(const clt_json *object, const char *key, const char *source, uint32_t *out)
{
    char text[16], *end;
    CLT_TRY(take_string(object, key, source, text, sizeof text));
    unsigned long value = strtoul(text, &end, 16);
    if (strlen(text) != 8 || *end != '\0')
        CLT_FAIL(CLT_EDATA, "%s: '%s' is not eight hexadecimal digits", source, key);
    *out = (uint32_t)value;
    return CLT_OK;
}

static clt_status check_object(const clt_json *object, int members, const char *source, const char *what)
{
    if (clt_json_typeof(object) != CLT_JSON_OBJECT || clt_json_count(object) != (size_t)members)
        CLT_FAIL(CLT_EDATA, "%s: %s is not an object of %d members", source, what, members);
    return CLT_OK;
}

static clt_status take_list(const clt_json *root, const char *key, const char *source, const clt_json **out)
{
    *out = clt_json_get(root, key);
    if (clt_json_typeof(*out) != CLT_JSON_ARRAY)
        CLT_FAIL(CLT_EDATA, "%s: '%s' is missing or not a list", source, key);
    return CLT_OK;
}

static clt_status parse_item(const clt_json *object, const char *source, ocl_item *item)
{
    char answer[32];
    int64_t value;
    memset(item, 0, sizeof *item);
    CLT_TRY(take_string(object, "item", source, item->name, sizeof item->name));
    CLT_TRY(take_string(object, "answer", source, answer, sizeof answer));
    CLT_TRY(take_bits(object, "drops", source, &item->drops));
    char reason[3 * OCL_REASON_SIZE]; /* the writer replaces an invalid byte by a character of three bytes */
    CLT_TRY(take_string(object, "reason", source, reason, sizeof reason));
    snprintf(item->reason, sizeof item->reason, "%.*s", OCL_REASON_SIZE - 1, reason);
    if (!ocl_answer_from_name(answer, &item->answer) || !is_kept(item))
        CLT_FAIL(CLT_EDATA, "%s: '%s' is not an answer that can be stored", source, answer);
    if (!clt_json_int_within(clt_json_get(object, "value"), 0, INT64_MAX, &value))
        CLT_FAIL(CLT_EDATA, "%s: 'value' is not a whole number", source);
    item->value = (uint64_t)value;
    return CLT_OK;
}

static clt_status parse_items(const clt_json *root, const char *source, ocl_capabilities *out)
{
    const clt_json *list;
    CLT_TRY(take_list(root, "answers", source, &list));
    for (const clt_json *at = clt_json_first(list); at != NULL; at = clt_json_next(at)) {
        ocl_item item;
        CLT_TRY(check_object(at, 5, source, "an answer"));
        CLT_TRY(parse_item(at, source, &item));
        if (ocl_capabilities_find(out, item.name) != NULL)
            CLT_FAIL(CLT_EDATA, "%s: '%s' is answered twice", source, item.name);
        CLT_TRY(ocl_capabilities_set(out, &item));
    }
    return CLT_OK;
}

static clt_status parse_tested(const clt_json *root, const char *source, ocl_capabilities *out)
{
    const clt_json *list;
    CLT_TRY(take_list(root, "tested", source, &list));
    for (const clt_json *at = clt_json_first(list); at != NULL; at = clt_json_next(at)) {
        int64_t caps;
        if (!clt_json_int_within(at, 0, UINT32_MAX, &caps) || out->n_tested == OCL_TESTED_MAX)
            CLT_FAIL(CLT_EDATA, "%s: 'tested' is not a set of capabilities", source);
        out->tested[out->n_tested++] = (uint32_t)caps;
    }
    return CLT_OK;
}

static clt_status parse_refused(const clt_json *root, const char *source, ocl_capabilities *out)
{
    const clt_json *list;
    CLT_TRY(take_list(root, "refused", source, &list));
    for (const clt_json *at = clt_json_first(list); at != NULL; at = clt_json_next(at)) {
        ocl_refused_device entry;
        CLT_TRY(check_object(at, 6, source, "a refused device"));
        CLT_TRY(take_string(at, "spec", source, entry.spec, sizeof entry.spec));
        CLT_TRY(parse_item(at, source, &entry.item));
        if (out->n_refused < OCL_REFUSED_MAX)
            out->refused[out->n_refused++] = entry;
    }
    return CLT_OK;
}

clt_status ocl_unsupported_read(const clt_json *object, const char *source, ocl_unsupported *out)
{
    const clt_json *list;
    memset(out, 0, sizeof *out);
    if (object == NULL)
        CLT_FAIL(CLT_EDATA, "%s: it does not say what the driver refused", source);
    CLT_TRY(check_object(object, 2, source, "what the driver refused"));
    CLT_TRY(take_list(object, "capabilities", source, &list));
    for (const clt_json *at = clt_json_first(list); at != NULL; at = clt_json_next(at)) {
        if (clt_json_typeof(at) != CLT_JSON_STRING)
            CLT_FAIL(CLT_EDATA, "%s: a capability that the driver refused is not a string", source);
        for (int cap = 0; cap < OCL_CAP_COUNT; cap++)
            if (clt_json_is(at, ocl_cap_name(cap)))
                out->caps |= 1u << cap;
    }
    CLT_TRY(take_list(object, "variants", source, &list));
    for (const clt_json *at = clt_json_first(list); at != NULL; at = clt_json_next(at)) {
        ocl_unsupported one = {.count = 1};
        CLT_TRY(check_object(at, 2, source, "a refused variant"));
        CLT_TRY(take_string(at, "variant", source, one.list[0].variant, sizeof one.list[0].variant));
        CLT_TRY(take_string(at, "form", source, one.list[0].form, sizeof one.list[0].form));
        ocl_unsupported_add(out, &one);
    }
    return CLT_OK;
}

static clt_status parse_root(const clt_json *root, const char *source, ocl_capabilities *out)
{
    char format[32], key[CLT_HASH64_TEXT], want[CLT_HASH64_TEXT], boot[64], now[64];
    int64_t version = 0;
    if (clt_json_typeof(root) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_EDATA, "%s: it holds no object", source);
    CLT_TRY(take_string(root, "format", source, format, sizeof format));
    if (strcmp(format, FORMAT_NAME) != 0 || !clt_json_int(clt_json_get(root, "version"), &version) ||
        version != FORMAT_VERSION)
        CLT_FAIL(CLT_EDATA, "%s: it is not a file of format %s %d", source, FORMAT_NAME, FORMAT_VERSION);
    CLT_TRY(take_string(root, "key", source, key, sizeof key));
    if (strcmp(key, clt_hash64_text(out->key, want)) != 0)
        CLT_FAIL(CLT_EDATA, "%s: it belongs to another device, driver or version of cltrain", source);
    CLT_TRY(take_string(root, "boot", source, boot, sizeof boot));
    CLT_TRY(take_bits(root, "probed", source, &out->probed));
    CLT_TRY(parse_tested(root, source, out));
    CLT_TRY(parse_refused(root, source, out));
    CLT_TRY(ocl_unsupported_read(clt_json_get(root, "denials"), source, &out->unsupported));
    CLT_TRY(parse_items(root, source, out));
    clt_boot_identity(now, sizeof now);
    if (strcmp(boot, now) != 0) {
        out->n_refused = 0;
        memset(&out->unsupported, 0, sizeof out->unsupported);
    }
    return CLT_OK;
}

clt_status ocl_capabilities_parse(const char *text, size_t length, const char *source, ocl_capabilities *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    if (!clt_json_sealed(text, length, SEAL))
        CLT_FAIL(CLT_EDATA, "%s: does not match its own hash; it was cut off, damaged or edited", source);
    CLT_TRY(clt_json_parse(text, length, source, CLT_EDATA, &doc));
    CLT_TRY(parse_root(clt_json_root(doc), source, out));
    out->remembered = true;
    return CLT_OK;
}
