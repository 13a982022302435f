/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a Python pickle (protocols 2 to 5) as data. Nothing is imported, looked up or called: a global is
 * only its name, and a call is a value that holds the function's name and the arguments. The caller
 * interprets the values. Source of the opcodes: CPython's Lib/pickletools.py. */
#ifndef ENGINE_FILES_PICKLE_H
#define ENGINE_FILES_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/mem.h"

typedef enum clt_pickle_kind {
    CLT_PICKLE_NONE,
    CLT_PICKLE_BOOL,
    CLT_PICKLE_INT,    /* an integer of 64 bits */
    CLT_PICKLE_NUMBER, /* a float, or an integer beyond 64 bits, whose value is not kept */
    CLT_PICKLE_TEXT,   /* text or bytes */
    CLT_PICKLE_TUPLE,  /* items: the members; also for a list and a set */
    CLT_PICKLE_LIST,
    CLT_PICKLE_SET,
    CLT_PICKLE_DICT,       /* items: key, value, key, value, ... in the order in which they were set */
    CLT_PICKLE_GLOBAL,     /* text: "module name" */
    CLT_PICKLE_CALL,       /* items: the global that would be called, then its arguments */
    CLT_PICKLE_PERSISTENT, /* items: the identity of an object that is stored elsewhere */
} clt_pickle_kind;

typedef struct clt_pickle_value {
    clt_pickle_kind kind;
    int64_t integer;  /* BOOL, INT */
    const char *text; /* TEXT, GLOBAL; ends with a zero byte, and may contain others */
    size_t length;
    struct clt_pickle_value **items;
    size_t count, capacity;
    struct clt_pickle_value *state; /* CALL: the attributes that the object would be given; NULL: none */
    struct clt_pickle_value *next;  /* next CALL or PERSISTENT value of the pickle; NULL: the last one */
} clt_pickle_value;

typedef struct clt_pickle {
    clt_pickle_value *root;
    clt_pickle_value *calls, *persistent; /* all values of each kind, linked by `next` */
    size_t bytes;                         /* length of the pickle; other bytes may follow it */
} clt_pickle;

/* `where` names the file and the part of it in messages. Values are allocated in the arena; they may contain
 * themselves. Fails with `code`: the pickle is truncated, has an unknown opcode, is deeper than 1000 marks,
 * or makes more than 2^22 values. The memory used is bounded by the number of bytes read, not by numbers
 * that the pickle contains. */
clt_status clt_pickle_read(const uint8_t *bytes, size_t size, const char *where, clt_status code,
                           clt_arena *arena, clt_pickle *out);
/* The last value that was set for a text key of a dict; NULL: there is none. */
static inline clt_pickle_value *clt_pickle_get(const clt_pickle_value *dict, const char *key)
{
    for (size_t i = dict->kind == CLT_PICKLE_DICT ? dict->count : 0; i >= 2; i -= 2)
        if (dict->items[i - 2]->kind == CLT_PICKLE_TEXT && strcmp(dict->items[i - 2]->text, key) == 0)
            return dict->items[i - 1];
    return NULL;
}
/* True for a global of this name, "module name". */
static inline bool clt_pickle_is_global(const clt_pickle_value *value, const char *name)
{
    return value->kind == CLT_PICKLE_GLOBAL && strcmp(value->text, name) == 0;
}
/* The global that a CALL would call, "module name"; NULL: the CALL would call something else. */
static inline const char *clt_pickle_called(const clt_pickle_value *call)
{
    return call->items[0]->kind == CLT_PICKLE_GLOBAL ? call->items[0]->text : NULL;
}

#endif
