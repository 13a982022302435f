/* SPDX-License-Identifier: Apache-2.0
 *
 * What a driver that computes wrong results leaves in a kernel's buffers (driver_shim.c). */
#include "tests/fault/driver_shim.h"

#include <dlfcn.h>
#include <stdlib.h>

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

uint32_t *shim_contents(cl_command_queue queue, const shim_copy *c)
{
    uint32_t *words = malloc(c->bytes);
    if (!words ||
        REAL(clEnqueueReadBuffer)(queue, c->id, CL_TRUE, 0, c->bytes, words, 0, NULL, NULL) != CL_SUCCESS)
        shim_stop("cannot read a buffer", "a wrong launch");
    return words;
}

/* The wrong value is finite if the word was, whether the word is one f32 or two 16-bit floats. */
static uint32_t wrong_word(uint32_t word)
{
    return word == 0 ? 0x3f803f80u : word ^ 0x00c00240u;
}

/* Part of the changed words, at least the first one. */
static size_t spoil_part(uint32_t *now, const shim_copy *c, double fraction)
{
    double share = 1;
    size_t spoiled = 0;
    for (size_t i = 0; i < c->bytes / 4; i++) {
        if (now[i] == c->words[i])
            continue;
        if (share >= 1) {
            now[i] = wrong_word(now[i]);
            share -= 1;
            spoiled++;
        }
        share += fraction;
    }
    return spoiled;
}

/* The changed words are divided among the groups in their order; one group in `one_in` is wrong. */
static size_t spoil_groups(uint32_t *now, const shim_copy *c, size_t one_in, size_t groups)
{
    size_t changed = 0, at = 0, spoiled = 0;
    for (size_t i = 0; i < c->bytes / 4; i++)
        changed += now[i] != c->words[i];
    for (size_t i = 0; i < c->bytes / 4; i++) {
        if (now[i] == c->words[i])
            continue;
        if (at++ * groups / changed % one_in == one_in / 2) {
            now[i] = wrong_word(now[i]);
            spoiled++;
        }
    }
    return spoiled;
}

static size_t spoil_far(uint32_t *now, const shim_copy *c, size_t offset)
{
    size_t spoiled = 0;
    for (size_t i = offset / 4; i < c->bytes / 4; i++)
        if (now[i] != c->words[i]) {
            now[i] = wrong_word(now[i]);
            spoiled++;
        }
    return spoiled;
}

void shim_spoil(cl_command_queue queue, const shim_copy *c, action how, double value, size_t groups)
{
    uint32_t *now = shim_contents(queue, c);
    size_t spoiled = how == GROUP_WRONG ? spoil_groups(now, c, (size_t)value, groups)
                     : how == FAR_WRONG ? spoil_far(now, c, (size_t)value)
                                        : spoil_part(now, c, value);
    if (spoiled &&
        REAL(clEnqueueWriteBuffer)(queue, c->id, CL_TRUE, 0, c->bytes, now, 0, NULL, NULL) != CL_SUCCESS)
        shim_stop("cannot write a buffer", "a wrong launch");
    free(now);
}
