/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of work-groups without ops: barriers with uneven work before them, all of the local memory, and
 * many groups, all of which must run. Knows no op. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/verify/verify_internal.h"

typedef struct group_check {
    const char *name, *form;
    clt_status (*check)(clt_verify_session *session, const struct group_check *c,
                        clt_verify_outcome *outcome);
    /* work-items of a group; 0: the most that the device allows, up to MOST_ITEMS. For the check "many":
     * number of dimensions */
    uint32_t size;
    bool small;
} group_check;

static bool has_local(const clt_verify_session *session, uint32_t items, clt_verify_outcome *outcome)
{
    if (!(session->desc.caps & OCL_CAP_LOCAL))
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "the device lacks local");
    else if (items > ocl_group_limit(&session->desc))
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "the device allows work-groups of %llu items",
                       (unsigned long long)ocl_group_limit(&session->desc));
    return !clt_verify_bad(outcome);
}

/* Makes n random words, and n words of the checker's pattern for the results. */
static clt_status make_words(const clt_verify_session *session, const char *what, size_t in, size_t out,
                             uint32_t **x, uint32_t **y)
{
    clt_verify_stream stream = clt_verify_stream_make(session->seed, what, 0);
    CLT_TRY(clt_alloc(x, in, sizeof **x, "words for work-groups"));
    CLT_TRY(clt_alloc(y, out, sizeof **y, "words for work-groups"));
    for (size_t i = 0; i < in; i++)
        (*x)[i] = clt_verify_word(&stream, i);
    for (size_t i = 0; i < out; i++)
        (*y)[i] = CLT_VERIFY_NAN_PATTERN;
    return CLT_OK;
}

/* --- barriers --- */

#define MOST_ITEMS 1024u

/* One round of group_rotate in a group, from `value` to `next`. */
static void rotate(const uint32_t *value, uint32_t *next, uint32_t items, uint32_t group, uint32_t round)
{
    for (uint32_t l = 0; l < items; l++) {
        uint32_t v = value[l];
        for (uint32_t work = (7 * l + 5 * round + group) % 23; work > 0; work--)
            v = v * 1664525u + 1013904223u;
        next[(l + items - (1 + round) % items) % items] = v ^ round;
    }
}

static clt_status rotated(clt_verify_session *session, const uint32_t *x, uint32_t *y, uint32_t items,
                          uint32_t groups, uint32_t rounds)
{
    ocl_command_list list;
    ocl_emitter e;
    CLT_TRY(clt_verify_command_begin(session, "rotation", &list, &e));
    ocl_kernel_begin(&e, "work_groups", "group_rotate");
    ocl_define(&e, "LS", items);
    ocl_arg_out(&e, 0, CLT_U32, (uint64_t)items * groups);
    ocl_arg_in(&e, 1, CLT_U32, (uint64_t)items * groups);
    ocl_arg_u32(&e, rounds);
    ocl_kernel_end_1d(&e, (uint64_t)items * groups, items, 0.0);
    size_t bytes = (size_t)items * groups * sizeof *x;
    return clt_verify_command_answer(session, &e, x, bytes, y, bytes);
}

static void judge_rotation(const uint32_t *x, const uint32_t *y, uint32_t items, uint32_t groups,
                           uint32_t rounds, clt_verify_outcome *outcome)
{
    uint32_t value[2][MOST_ITEMS], wrong = 0, first = 0;
    for (uint32_t g = 0; g < groups; g++) {
        memcpy(value[0], x + (size_t)g * items, items * sizeof *x);
        for (uint32_t r = 0; r < rounds; r++)
            rotate(value[r & 1], value[1 - (r & 1)], items, g, r);
        if (memcmp(value[rounds & 1], y + (size_t)g * items, items * sizeof *y) != 0 && wrong++ == 0)
            first = g;
    }
    if (wrong > 0)
        clt_verify_set(
            outcome, CLT_VERIFY_FAIL,
            "the items of a group of %u pass numbers on through local memory, with a barrier each of "
            "%u times: %u of %u groups end with wrong numbers, the first is group %u",
            items, rounds, wrong, groups, first);
}

static clt_status check_rotation(clt_verify_session *session, const group_check *c,
                                 clt_verify_outcome *outcome)
{
    const uint32_t items = c->size ? c->size : (uint32_t)ocl_group_items(&session->desc, MOST_ITEMS);
    const uint32_t groups = c->small ? 32 : 256, rounds = c->small ? 48 : 200;
    const size_t count = (size_t)items * groups;
    CLT_FREED uint32_t *x = NULL, *y = NULL;
    if (!has_local(session, items, outcome))
        return CLT_OK;
    CLT_TRY(make_words(session, "groups.rotate", count, count, &x, &y));
    CLT_TRY(rotated(session, x, y, items, groups, rounds));
    judge_rotation(x, y, items, groups, rounds, outcome);
    clt_verify_add_bits(outcome, y, count * sizeof *y);
    return CLT_OK;
}

/* --- local memory --- */

#define LOCAL_GROUPS 8u

static clt_status check_local(clt_verify_session *session, const group_check *c, clt_verify_outcome *outcome)
{
    const uint32_t words = (uint32_t)(ocl_desc_max_local(&session->desc, false) / sizeof(uint32_t));
    CLT_FREED uint32_t *x = NULL, *y = NULL;
    ocl_command_list list;
    ocl_emitter e;
    if (!has_local(session, c->size, outcome))
        return CLT_OK;
    const size_t count = (size_t)words * LOCAL_GROUPS;
    CLT_TRY(make_words(session, "groups.local", LOCAL_GROUPS, count, &x, &y));
    CLT_TRY(clt_verify_command_begin(session, "local memory", &list, &e));
    ocl_kernel_begin(&e, "work_groups", "group_local");
    ocl_define(&e, "LS", c->size);
    ocl_define(&e, "WORDS", words);
    ocl_arg_out(&e, 0, CLT_U32, count);
    ocl_arg_in(&e, 1, CLT_U32, LOCAL_GROUPS);
    ocl_kernel_end_1d(&e, (uint64_t)c->size * LOCAL_GROUPS, c->size, 0.0);
    CLT_TRY(clt_verify_command_answer(session, &e, x, LOCAL_GROUPS * sizeof *x, y, count * sizeof *y));
    for (size_t i = 0; i < count; i++) {
        uint32_t g = (uint32_t)(i / words), cell = words - 1 - (uint32_t)(i % words),
                 want = (x[g] ^ cell) * 0x9e3779b1u;
        if (y[i] != want)
            clt_verify_set(outcome, CLT_VERIFY_FAIL,
                           "word %u of %u in the local memory of group %u is %08x and must be %08x", cell,
                           words, g, y[i], want);
    }
    clt_verify_add_bits(outcome, y, count * sizeof *y);
    return CLT_OK;
}

/* --- many groups --- */

/* Items of a group and groups in each dimension: always 32 items and 10,240 groups. */
typedef struct shape {
    uint64_t local[3], groups[3];
} shape;
static const shape shapes[] = {
    {{32, 1, 1}, {10240, 1, 1}}, {{8, 4, 1}, {128, 80, 1}}, {{4, 4, 2}, {32, 20, 16}}};
#define MANY_ITEMS 32u
#define MANY_GROUPS 10240u

static uint32_t mixed(uint32_t value, const shape *s, int dimension, uint64_t id)
{
    const uint64_t local = s->local[dimension];
    value = (value ^ (uint32_t)(id / local)) * 0x9e3779b1u + (uint32_t)(id % local);
    value = (value ^ (uint32_t)s->groups[dimension]) * 0x85ebca6bu + (uint32_t)local;
    return value ^ value >> 15;
}

static void judge_many(const shape *s, const uint32_t *x, const uint32_t *y, clt_verify_outcome *outcome)
{
    const uint64_t size[3] = {s->local[0] * s->groups[0], s->local[1] * s->groups[1],
                              s->local[2] * s->groups[2]};
    static const uint64_t none = UINT64_MAX;
    uint64_t wrong = 0, first[3] = {none, none, none};
    for (uint64_t i = 0; i < (uint64_t)MANY_ITEMS * MANY_GROUPS; i++) {
        const uint64_t id[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
        uint32_t want = x[i];
        for (int d = 0; d < 3; d++)
            want = mixed(want, s, d, id[d]);
        if (y[i] != want && wrong++ == 0)
            for (int d = 0; d < 3; d++)
                first[d] = id[d] / s->local[d];
    }
    if (wrong > 0)
        clt_verify_set(
            outcome, CLT_VERIFY_FAIL,
            "%llu of %u items in %u work-groups wrote a wrong word, or none; the first is in group "
            "(%llu, %llu, %llu)",
            (unsigned long long)wrong, MANY_ITEMS * MANY_GROUPS, MANY_GROUPS, (unsigned long long)first[0],
            (unsigned long long)first[1], (unsigned long long)first[2]);
}

static clt_status check_many(clt_verify_session *session, const group_check *c, clt_verify_outcome *outcome)
{
    const shape *s = &shapes[c->size - 1];
    const size_t count = (size_t)MANY_ITEMS * MANY_GROUPS;
    CLT_FREED uint32_t *x = NULL, *y = NULL;
    ocl_command_list list;
    ocl_emitter e;
    if (ocl_group_limit(&session->desc) < MANY_ITEMS) {
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "the device allows work-groups of %llu items",
                       (unsigned long long)ocl_group_limit(&session->desc));
        return CLT_OK;
    }
    CLT_TRY(make_words(session, "groups.many", count, count, &x, &y));
    CLT_TRY(clt_verify_command_begin(session, "many groups", &list, &e));
    ocl_kernel_begin(&e, "work_groups", "group_many");
    ocl_arg_out(&e, 0, CLT_U32, count);
    ocl_arg_in(&e, 1, CLT_U32, count);
    const uint64_t global[3] = {s->local[0] * s->groups[0], s->local[1] * s->groups[1],
                                s->local[2] * s->groups[2]};
    if (c->size == 1)
        ocl_kernel_end_1d(&e, global[0], s->local[0], 0.0);
    else if (c->size == 2)
        ocl_kernel_end_2d(&e, global[0], global[1], s->local[0], s->local[1], 0.0);
    else
        ocl_kernel_end_3d(&e, global, s->local, 0.0);
    CLT_TRY(clt_verify_command_answer(session, &e, x, count * sizeof *x, y, count * sizeof *y));
    judge_many(s, x, y, outcome);
    clt_verify_add_bits(outcome, y, count * sizeof *y);
    return CLT_OK;
}

/* --- all of them --- */

static const group_check checks[] = {
    {"rotate", "32", check_rotation, 32, false},   {"rotate", "64", check_rotation, 64, true},
    {"rotate", "128", check_rotation, 128, false}, {"rotate", "256", check_rotation, 256, true},
    {"rotate", "most", check_rotation, 0, false},  {"local", "all", check_local, 64, true},
    {"many", "line", check_many, 1, true},         {"many", "plane", check_many, 2, true},
    {"many", "space", check_many, 3, true}};

clt_status clt_verify_groups(clt_verify_session *session)
{
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        const group_check *c = &checks[i];
        clt_verify_item item = {"groups", c->name, c->form, CLT_VERIFY_CORRECT, c->small, false};
        clt_verify_outcome outcome;
        if (clt_verify_wants(session, &item, &outcome))
            CLT_TRY(clt_verify_finish(session, &outcome, c->check(session, c, &outcome)));
    }
    return CLT_OK;
}
