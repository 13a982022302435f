/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table with open addressing and linear probing, at most half full. */
#include "engine/base/names.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"

/* The slot of a name, or the empty slot where it belongs. */
static clt_name *find_place(const clt_names *names, const char *text, size_t length)
{
    size_t at = (size_t)clt_hash64(text, length) & (names->places - 1);
    for (;; at = (at + 1) & (names->places - 1)) {
        clt_name *place = &names->place[at];
        if (!place->text || (place->length == length && memcmp(place->text, text, length) == 0))
            return place;
    }
}

static clt_status make_room(clt_names *names)
{
    clt_names larger = {.places = names->places ? 2 * names->places : 16};
    if (2 * (names->n + 1) <= names->places)
        return CLT_OK;
    CLT_TRY(clt_alloc(&larger.place, larger.places, sizeof *larger.place, "names"));
    larger.n = names->n;
    for (size_t i = 0; i < names->places; i++)
        if (names->place[i].text)
            *find_place(&larger, names->place[i].text, names->place[i].length) = names->place[i];
    free(names->place);
    *names = larger;
    return CLT_OK;
}

clt_status clt_names_add(clt_names *names, const char *text, uintptr_t value)
{
    size_t length = strlen(text);
    CLT_TRY(make_room(names));
    clt_name *place = find_place(names, text, length);
    if (!place->text) {
        *place = (clt_name){text, length, value};
        names->n++;
    }
    return CLT_OK;
}

bool clt_names_find(const clt_names *names, const char *text, size_t length, uintptr_t *value)
{
    const clt_name *place = names->places ? find_place(names, text, length) : NULL;
    if (!place || !place->text)
        return false;
    *value = place->value;
    return true;
}

void clt_names_free(clt_names *names)
{
    free(names->place);
    *names = (clt_names){0};
}
