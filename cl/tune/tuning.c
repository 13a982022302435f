/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of tuning records: adds records, finds the record for a problem, and decides whether a record can be
 * used. Also the log of the problems of a plan. Pure: no file, no device. This file must not know what a
 * family computes. */
#include "cl/tune/tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"

/* Records */

clt_status ocl_choice_set(ocl_choice *record, const char *name, int value)
{
    int at = 0;
    while (at < record->n_values && strcmp(record->values[at].name, name) < 0)
        at++;
    if (at == record->n_values || strcmp(record->values[at].name, name) != 0) {
        if (record->n_values == OCL_TUNE_MAX || strlen(name) >= OCL_TUNE_NAME)
            CLT_FAIL(CLT_EINTERNAL,
                     "tuning '%s': a variant has more than %d tunables, or one with a long name",
                     record->problem, OCL_TUNE_MAX);
        memmove(&record->values[at + 1], &record->values[at],
                (size_t)(record->n_values - at) * sizeof record->values[0]);
        record->n_values++;
        snprintf(record->values[at].name, sizeof record->values[at].name, "%s", name);
    }
    record->values[at].value = value;
    return CLT_OK;
}

int ocl_choice_value(const ocl_choice *record, const char *name, int fallback)
{
    for (int i = 0; i < record->n_values; i++)
        if (strcmp(record->values[i].name, name) == 0)
            return record->values[i].value;
    return fallback;
}

int ocl_tuned(const ocl_emitter *e, const char *name, int fallback)
{
    int value = e->record != NULL ? ocl_choice_value(e->record, name, fallback) : fallback;
    if (e->asked != NULL && ocl_choice_set(e->asked, name, value) != CLT_OK)
        clt_error_clear(); /* more tunables than fit into a record: the others are not tuned */
    return value;
}

bool ocl_choice_equal(const ocl_choice *a, const ocl_choice *b)
{
    if (strcmp(a->variant, b->variant) != 0 || a->n_values != b->n_values)
        return false;
    for (int i = 0; i < a->n_values; i++)
        if (strcmp(a->values[i].name, b->values[i].name) != 0 || a->values[i].value != b->values[i].value)
            return false;
    return true;
}

const char *ocl_choice_text(const ocl_choice *record, char *buffer, size_t size)
{
    int used = snprintf(buffer, size, "%s", record->variant);
    for (int i = 0; i < record->n_values && used >= 0 && (size_t)used < size; i++)
        used += snprintf(buffer + used, size - (size_t)used, " %s=%d", record->values[i].name,
                         record->values[i].value);
    return buffer;
}

static bool declares(const ocl_variant *variant, const ocl_tuned_value *value)
{
    for (const ocl_tunable *t = variant->tunables; t != NULL && t->name != NULL; t++) {
        if (strcmp(t->name, value->name) != 0)
            continue;
        for (int i = 0; i < t->count; i++)
            if (t->values[i] == value->value)
                return true;
    }
    return false;
}

const ocl_variant *ocl_variant_named(const ocl_variant *const *list, const char *name)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    return NULL;
}

const ocl_variant *ocl_choice_variant(const ocl_choice *record, const ocl_variant *const *list,
                                      const void *problem, const ocl_device_desc *device, char *reason,
                                      size_t size)
{
    const ocl_variant *variant = ocl_variant_named(list, record->variant);
    if (variant == NULL) {
        snprintf(reason, size, "there is no variant '%s'", record->variant);
        return NULL;
    }
    for (int i = 0; i < record->n_values; i++) {
        if (!declares(variant, &record->values[i])) {
            snprintf(reason, size, "variant '%s' does not have the choice %s=%d", variant->name,
                     record->values[i].name, record->values[i].value);
            return NULL;
        }
    }
    return ocl_variant_accepts(variant, problem, device, reason, size) ? variant : NULL;
}

/* Sets */

clt_status ocl_tuning_create(const ocl_device_desc *device, ocl_tuning **out)
{
    ocl_tuning *t;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "tuning records"));
    snprintf(t->key.platform, sizeof t->key.platform, "%s", device->platform);
    snprintf(t->key.device, sizeof t->key.device, "%s", device->name);
    snprintf(t->key.driver, sizeof t->key.driver, "%s", device->driver);
    t->key.compute_units = device->compute_units;
    *out = t;
    return CLT_OK;
}

void ocl_tuning_destroy(ocl_tuning *tuning)
{
    if (tuning == NULL)
        return;
    free(tuning->records);
    free(tuning);
}

clt_status ocl_tuning_copy(const ocl_tuning *tuning, ocl_tuning **out)
{
    CLT_SCOPED(ocl_tuning) *t = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "tuning records"));
    t->key = tuning->key;
    t->exact = tuning->exact;
    t->style = tuning->style;
    CLT_TRY(ocl_tuning_merge(t, tuning, true));
    *out = CLT_TAKE(t);
    return CLT_OK;
}

/* The index of a problem or, if *found is false, the index at which it would be inserted. */
static size_t place_of(const ocl_tuning *tuning, const char *family, const char *problem, bool *found)
{
    size_t low = 0, high = tuning->count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(tuning->records[middle].family, family);
        if (order == 0)
            order = strcmp(tuning->records[middle].problem, problem);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

clt_status ocl_tuning_set(ocl_tuning *tuning, const ocl_choice *record)
{
    bool found;
    size_t at = place_of(tuning, record->family, record->problem, &found);
    if (!found) {
        CLT_TRY(clt_grow(&tuning->records, &tuning->capacity, tuning->count + 1, sizeof *tuning->records,
                         "tuning records"));
        memmove(&tuning->records[at + 1], &tuning->records[at],
                (tuning->count - at) * sizeof *tuning->records);
        tuning->count++;
    }
    tuning->records[at] = *record;
    return CLT_OK;
}

void ocl_tuning_remove(ocl_tuning *tuning, const char *family, const char *problem)
{
    bool found;
    size_t at = place_of(tuning, family, problem, &found);
    if (!found)
        return;
    tuning->count--;
    memmove(&tuning->records[at], &tuning->records[at + 1], (tuning->count - at) * sizeof *tuning->records);
}

clt_status ocl_tuning_merge(ocl_tuning *tuning, const ocl_tuning *from, bool replace)
{
    for (size_t i = 0; i < from->count; i++)
        if (replace || ocl_tuning_exact(tuning, from->records[i].family, from->records[i].problem) == NULL)
            CLT_TRY(ocl_tuning_set(tuning, &from->records[i]));
    return CLT_OK;
}

const ocl_choice *ocl_tuning_exact(const ocl_tuning *tuning, const char *family, const char *problem)
{
    bool found = false;
    size_t at = tuning != NULL ? place_of(tuning, family, problem, &found) : 0;
    return found ? &tuning->records[at] : NULL;
}

/* Similarity of problems */

/* Whether a word is a size, such as "m=512"; *name_length gets the length up to and including '='. */
static bool size_word(const char *word, size_t length, size_t *name_length, double *value)
{
    size_t name = 0;
    double v = 0.0;
    while (name < length && word[name] != '=')
        name++;
    if (name == 0 || length < name + 2)
        return false;
    for (size_t i = name + 1; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        v = v * 10.0 + (word[i] - '0');
    }
    *name_length = name + 1;
    *value = v;
    return true;
}

/* Distance of two words in octaves (log2 of the ratio of their sizes); below 0: they are not similar. */
static double word_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t name_a, name_b;
    double x, y;
    if (na == nb && memcmp(a, b, na) == 0)
        return 0.0;
    if (!size_word(a, na, &name_a, &x) || !size_word(b, nb, &name_b, &y) || name_a != name_b ||
        memcmp(a, b, name_a) != 0)
        return -1.0;
    if (x < 2.0 || y < 2.0 || x > 2.0 * y || y > 2.0 * x)
        return -1.0;
    return fabs(log2(x / y));
}

/* Words that start with '+' are additions to the problem (a bias, an activation). Each one that only one of
 * the two problems has counts as half an octave, because additions change the time more than they change the
 * best choice. */
static double additions(const char *a, const char *b)
{
    double sum = 0.0;
    for (const char *at = a; *at != '\0';) {
        size_t n = strcspn(at, " ");
        bool shared = *at != '+';
        for (const char *other = b; *other != '\0' && !shared;) {
            size_t m = strcspn(other, " ");
            shared = n == m && memcmp(at, other, n) == 0;
            other += m;
            other += *other == ' ';
        }
        sum += shared ? 0.0 : 0.5;
        at += n;
        at += *at == ' ';
    }
    return sum;
}

/* The next word that is not an addition. */
static const char *next_word(const char *at, size_t *length)
{
    for (;;) {
        at += strspn(at, " ");
        *length = strcspn(at, " ");
        if (*at != '+')
            return at;
        at += *length;
    }
}

static double distance(const char *a, const char *b)
{
    double sum = additions(a, b) + additions(b, a);
    for (;;) {
        size_t na, nb;
        a = next_word(a, &na);
        b = next_word(b, &nb);
        if (na == 0 || nb == 0)
            return na == nb ? sum : -1.0;
        double d = word_distance(a, na, b, nb);
        if (d < 0.0)
            return -1.0;
        sum += d;
        a += na;
        b += nb;
    }
}

const ocl_choice *ocl_tuning_find(const ocl_tuning *tuning, const char *family, const char *problem)
{
    const ocl_choice *best = ocl_tuning_exact(tuning, family, problem);
    double least = 0.0;
    if (tuning == NULL || best != NULL || tuning->exact)
        return best;
    for (size_t i = 0; i < tuning->count; i++) {
        const ocl_choice *r = &tuning->records[i];
        double d = strcmp(r->family, family) == 0 ? distance(problem, r->problem) : -1.0;
        if (d >= 0.0 && (best == NULL || d < least)) {
            best = r;
            least = d;
        }
    }
    return best;
}

/* Identity */

bool ocl_tuning_fits(const ocl_tuning *tuning, const ocl_device_desc *device, char *why, size_t size)
{
    const ocl_tuning_key *k = &tuning->key;
    if (strcmp(k->platform, device->platform) != 0 || strcmp(k->device, device->name) != 0)
        snprintf(why, size, "device '%s' of %s", k->device, k->platform);
    else if (strcmp(k->driver, "*") != 0 && strcmp(k->driver, device->driver) != 0)
        snprintf(why, size, "driver %s, this one is %s", k->driver, device->driver);
    else if (k->compute_units != 0 && k->compute_units != device->compute_units)
        snprintf(why, size, "%u compute units, this device has %u", k->compute_units, device->compute_units);
    else
        return true;
    return false;
}

uint64_t ocl_tuning_hash(const ocl_tuning *tuning)
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (size_t i = 0; i < tuning->count; i++) {
        const ocl_choice *r = &tuning->records[i];
        clt_hash64_add(&state, r->family, strlen(r->family) + 1);
        clt_hash64_add(&state, r->problem, strlen(r->problem) + 1);
        clt_hash64_add(&state, r->variant, strlen(r->variant) + 1);
        for (int v = 0; v < r->n_values; v++) {
            char text[OCL_TUNE_NAME + 16];
            int n = snprintf(text, sizeof text, "%s=%d", r->values[v].name, r->values[v].value);
            clt_hash64_add(&state, text, (size_t)n + 1);
        }
        clt_hash64_add(&state, "", 1);
    }
    return clt_hash64_end(&state);
}

/* The log of a plan */

static ocl_tuning_use *logged(const ocl_tuning_log *log, const char *family, const char *problem)
{
    for (size_t i = 0; i < log->count; i++)
        if (strcmp(log->at[i].family, family) == 0 && strcmp(log->at[i].problem, problem) == 0)
            return &log->at[i];
    return NULL;
}

clt_status ocl_tuning_log_add(ocl_tuning_log *log, const char *family, const char *problem, const void *data,
                              size_t size, double flops, const ocl_choice *record)
{
    if (log == NULL)
        return CLT_OK;
    ocl_tuning_use *use = logged(log, family, problem);
    if (use != NULL) {
        use->calls++;
        return CLT_OK;
    }
    CLT_TRY(clt_grow(&log->at, &log->capacity, log->count + 1, sizeof *log->at, "problems of a plan"));
    use = &log->at[log->count];
    memset(use, 0, sizeof *use);
    if (data != NULL) {
        CLT_TRY(clt_alloc(&use->data, 1, size, "a problem of a plan"));
        memcpy(use->data, data, size);
        use->size = size;
    }
    snprintf(use->family, sizeof use->family, "%s", family);
    snprintf(use->problem, sizeof use->problem, "%s", problem);
    use->calls = 1;
    use->flops = flops;
    use->tuned = record != NULL;
    if (record != NULL) { /* the record may be of a similar problem, so it gets this problem's name */
        use->record = *record;
        snprintf(use->record.problem, sizeof use->record.problem, "%s", problem);
    }
    log->count++;
    return CLT_OK;
}

clt_status ocl_tuning_log_merge(ocl_tuning_log *log, const ocl_tuning_log *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const ocl_tuning_use *u = &from->at[i];
        CLT_TRY(ocl_tuning_log_add(log, u->family, u->problem, u->data, u->size, u->flops,
                                   u->tuned ? &u->record : NULL));
        logged(log, u->family, u->problem)->calls += u->calls - 1;
    }
    return CLT_OK;
}

void ocl_tuning_log_free(ocl_tuning_log *log)
{
    if (log == NULL)
        return;
    for (size_t i = 0; i < log->count; i++)
        free(log->at[i].data);
    free(log->at);
    *log = (ocl_tuning_log){0};
}
