/* SPDX-License-Identifier: Apache-2.0
 *
 * The pickle machine: a stack of values, marks on it, and a memo. Every opcode makes values from values; none
 * runs code. */
#include "engine/files/pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/index_map.h"

#define MARKS_MAX 1000
#define VALUES_MAX (1u << 22)

typedef clt_pickle_value value;

typedef struct machine {
    const uint8_t *at, *end, *begin;
    const char *where;
    clt_status code;
    clt_arena *arena;
    value **stack;
    size_t depth, capacity;
    size_t marks[MARKS_MAX], n_marks;
    clt_index_map memo; /* the memo of values, a hash table because the pickle may choose any indices */
    size_t values;
    clt_pickle *out;
} machine;

#define REFUSE(m, ...) CLT_FAIL((m)->code, __VA_ARGS__)

static clt_status need(const machine *m, uint64_t bytes)
{
    if (bytes > (uint64_t)(m->end - m->at))
        REFUSE(m, "%s: the pickle ends in the middle of a value; the file may be truncated", m->where);
    return CLT_OK;
}

/* Reads a number of `bytes` bytes, the lowest first. */
static clt_status read_number(machine *m, int bytes, uint64_t *out)
{
    CLT_TRY(need(m, (uint64_t)bytes));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *out = *out << 8 | m->at[i];
    m->at += bytes;
    return CLT_OK;
}

/* Counts values that are made or copied, so that a short pickle cannot make too many. */
static clt_status count_values(machine *m, size_t count)
{
    if (count > VALUES_MAX - m->values)
        REFUSE(m, "%s: the pickle has more than %u values, which is not a file of weights", m->where,
               VALUES_MAX);
    m->values += count;
    return CLT_OK;
}

static clt_status make(machine *m, clt_pickle_kind kind, value **out)
{
    CLT_TRY(count_values(m, 1));
    *out = clt_arena_alloc(m->arena, sizeof **out);
    if (!*out)
        return CLT_ENOMEM;
    (*out)->kind = kind;
    return CLT_OK;
}

static clt_status push(machine *m, value *v)
{
    CLT_TRY(clt_grow(&m->stack, &m->capacity, m->depth + 1, sizeof *m->stack, "the values of a pickle"));
    m->stack[m->depth++] = v;
    return CLT_OK;
}

static clt_status push_new(machine *m, clt_pickle_kind kind, value **out)
{
    CLT_TRY(make(m, kind, out));
    return push(m, *out);
}

static size_t floor_of(const machine *m)
{
    return m->n_marks ? m->marks[m->n_marks - 1] : 0;
}

/* Takes the top value. Values below the last mark cannot be taken: they belong to another collection. */
static clt_status pop(machine *m, value **out)
{
    if (m->depth <= floor_of(m))
        REFUSE(m, "%s: the pickle takes a value that is not there", m->where);
    *out = m->stack[--m->depth];
    return CLT_OK;
}

static clt_status top(const machine *m, value **out)
{
    if (m->depth <= floor_of(m))
        REFUSE(m, "%s: the pickle uses a value that is not there", m->where);
    *out = m->stack[m->depth - 1];
    return CLT_OK;
}

/* Removes the last mark. *from: the position on the stack where it was. */
static clt_status pop_mark(machine *m, size_t *from)
{
    if (m->n_marks == 0)
        REFUSE(m, "%s: the pickle ends a collection that it has not begun", m->where);
    *from = m->marks[--m->n_marks];
    return CLT_OK;
}

/* Adds the values from position `from` on to `to`, and removes them from the stack. */
static clt_status take_items(machine *m, value *to, size_t from)
{
    size_t more = m->depth - from;
    if (to->count + more > to->capacity) {
        size_t wanted = to->capacity * 2 > to->count + more ? to->capacity * 2 : to->count + more;
        value **items = clt_arena_alloc(m->arena, wanted * sizeof(value *));
        if (!items)
            return CLT_ENOMEM;
        if (to->count > 0)
            memcpy(items, to->items, to->count * sizeof(value *));
        to->items = items;
        to->capacity = wanted;
    }
    if (more > 0)
        memcpy(to->items + to->count, m->stack + from, more * sizeof(value *));
    to->count += more;
    m->depth = from;
    return CLT_OK;
}

static clt_status set_text(machine *m, value *v, const uint8_t *bytes, size_t length)
{
    char *text = clt_arena_alloc(m->arena, length + 1);
    if (!text)
        return CLT_ENOMEM;
    if (length > 0)
        memcpy(text, bytes, length);
    v->text = text;
    v->length = length;
    return CLT_OK;
}

/* --- values without members --- */

/* An integer in two's complement, whose length the pickle gives in `prefix` bytes. */
static clt_status push_long(machine *m, int prefix)
{
    uint64_t length, bits = 0;
    value *v;
    CLT_TRY(read_number(m, prefix, &length));
    CLT_TRY(need(m, length));
    CLT_TRY(push_new(m, length > 8 ? CLT_PICKLE_NUMBER : CLT_PICKLE_INT, &v));
    if (length > 0 && m->at[length - 1] & 0x80)
        bits = UINT64_MAX;
    for (uint64_t i = length; i > 0 && length <= 8; i--)
        bits = bits << 8 | m->at[i - 1];
    memcpy(&v->integer, &bits, sizeof bits);
    m->at += length;
    return CLT_OK;
}

static clt_status push_int(machine *m, int bytes, bool has_sign)
{
    uint64_t bits;
    value *v;
    CLT_TRY(read_number(m, bytes, &bits));
    CLT_TRY(push_new(m, CLT_PICKLE_INT, &v));
    v->integer = has_sign ? (int32_t)(uint32_t)bits : (int64_t)bits;
    return CLT_OK;
}

/* A text or bytes, whose length the pickle gives in `prefix` bytes. */
static clt_status push_text(machine *m, int prefix)
{
    uint64_t length;
    value *v;
    CLT_TRY(read_number(m, prefix, &length));
    CLT_TRY(need(m, length));
    CLT_TRY(push_new(m, CLT_PICKLE_TEXT, &v));
    CLT_TRY(set_text(m, v, m->at, (size_t)length));
    m->at += length;
    return CLT_OK;
}

static clt_status push_bool(machine *m, bool truth)
{
    value *v;
    CLT_TRY(push_new(m, CLT_PICKLE_BOOL, &v));
    v->integer = truth;
    return CLT_OK;
}

/* --- globals and calls --- */

static clt_status name_global(machine *m, const void *module, size_t module_length, const void *name,
                              size_t name_length)
{
    value *v;
    CLT_TRY(push_new(m, CLT_PICKLE_GLOBAL, &v));
    char *text = clt_arena_alloc(m->arena, module_length + name_length + 2);
    if (!text)
        return CLT_ENOMEM;
    memcpy(text, module, module_length);
    text[module_length] = ' ';
    memcpy(text + module_length + 1, name, name_length);
    v->text = text;
    v->length = module_length + name_length + 1;
    return CLT_OK;
}

static clt_status read_line(machine *m, const uint8_t **line, size_t *length)
{
    const uint8_t *stop = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!stop)
        REFUSE(m, "%s: the pickle ends in the middle of a name; the file may be truncated", m->where);
    *line = m->at;
    *length = (size_t)(stop - m->at);
    m->at = stop + 1;
    return CLT_OK;
}

static clt_status push_global(machine *m)
{
    const uint8_t *module, *name;
    size_t module_length, name_length;
    CLT_TRY(read_line(m, &module, &module_length));
    CLT_TRY(read_line(m, &name, &name_length));
    return name_global(m, module, module_length, name, name_length);
}

static clt_status push_stack_global(machine *m)
{
    value *module, *name;
    CLT_TRY(pop(m, &name));
    CLT_TRY(pop(m, &module));
    if (module->kind != CLT_PICKLE_TEXT || name->kind != CLT_PICKLE_TEXT)
        REFUSE(m, "%s: the pickle names a global by something that is not text", m->where);
    return name_global(m, module->text, module->length, name->text, name->length);
}

/* Makes a CALL or PERSISTENT value whose members are the top `count` values, and pushes it. */
static clt_status wrap(machine *m, clt_pickle_kind kind, size_t count)
{
    value *v, **list = kind == CLT_PICKLE_CALL ? &m->out->calls : &m->out->persistent;
    if (m->depth < floor_of(m) + count)
        REFUSE(m, "%s: the pickle takes a value that is not there", m->where);
    CLT_TRY(make(m, kind, &v));
    CLT_TRY(take_items(m, v, m->depth - count));
    v->next = *list;
    *list = v;
    return push(m, v);
}

/* True for a call with which Python would make a dict. */
static bool makes_dict(const value *function)
{
    return clt_pickle_is_global(function, "collections OrderedDict") ||
           clt_pickle_is_global(function, "collections defaultdict") ||
           clt_pickle_is_global(function, "builtins dict") ||
           clt_pickle_is_global(function, "__builtin__ dict");
}

static clt_status call(machine *m)
{
    if (m->depth < floor_of(m) + 2)
        REFUSE(m, "%s: the pickle takes a value that is not there", m->where);
    const value *function = m->stack[m->depth - 2], *arguments = m->stack[m->depth - 1];
    if (!makes_dict(function))
        return wrap(m, CLT_PICKLE_CALL, 2);
    m->depth -= 2;
    value *dict;
    CLT_TRY(push_new(m, CLT_PICKLE_DICT, &dict));
    /* Python 2 wrote the members of an OrderedDict as a list of pairs. */
    const value *pairs = arguments->count == 1 ? arguments->items[0] : NULL;
    if (!pairs || pairs->kind != CLT_PICKLE_LIST)
        return CLT_OK;
    const size_t from = m->depth;
    CLT_TRY(count_values(m, pairs->count)); /* the same list may be the argument of many calls */
    for (size_t i = 0; i < pairs->count; i++) {
        const value *pair = pairs->items[i];
        if (pair->count != 2 || (pair->kind != CLT_PICKLE_LIST && pair->kind != CLT_PICKLE_TUPLE))
            REFUSE(m, "%s: member %zu of an OrderedDict in the pickle is not a pair", m->where, i);
        CLT_TRY(push(m, pair->items[0]));
        CLT_TRY(push(m, pair->items[1]));
    }
    return take_items(m, dict, from);
}

/* --- collections --- */

static clt_status push_tuple(machine *m, size_t count)
{
    value *v;
    if (m->depth < floor_of(m) + count)
        REFUSE(m, "%s: the pickle takes a value that is not there", m->where);
    CLT_TRY(make(m, CLT_PICKLE_TUPLE, &v));
    CLT_TRY(take_items(m, v, m->depth - count));
    return push(m, v);
}

static clt_status push_marked(machine *m, clt_pickle_kind kind)
{
    size_t from;
    value *v;
    CLT_TRY(pop_mark(m, &from));
    CLT_TRY(make(m, kind, &v));
    CLT_TRY(take_items(m, v, from));
    return push(m, v);
}

/* Adds the values from position `from` on to the collection just below them. If a CALL or PERSISTENT value
 * is there instead, they are dropped. */
static clt_status extend(machine *m, size_t from, bool pairs)
{
    if (from <= floor_of(m))
        REFUSE(m, "%s: the pickle adds to a collection that is not there", m->where);
    value *to = m->stack[from - 1];
    if (to->kind == CLT_PICKLE_CALL || to->kind == CLT_PICKLE_PERSISTENT) {
        m->depth = from;
        return CLT_OK;
    }
    bool fits =
        pairs ? to->kind == CLT_PICKLE_DICT : to->kind == CLT_PICKLE_LIST || to->kind == CLT_PICKLE_SET;
    if (!fits || (pairs && (m->depth - from) % 2 != 0))
        REFUSE(m, "%s: the pickle adds members to a value that cannot have them", m->where);
    return take_items(m, to, from);
}

static clt_status extend_marked(machine *m, bool pairs)
{
    size_t from;
    CLT_TRY(pop_mark(m, &from));
    return extend(m, from, pairs);
}

static clt_status extend_by(machine *m, size_t count, bool pairs)
{
    if (m->depth < floor_of(m) + count)
        REFUSE(m, "%s: the pickle takes a value that is not there", m->where);
    return extend(m, m->depth - count, pairs);
}

static clt_status push_mark(machine *m)
{
    if (m->n_marks == MARKS_MAX)
        REFUSE(m, "%s: the pickle nests collections more than %d deep", m->where, MARKS_MAX);
    m->marks[m->n_marks++] = m->depth;
    return CLT_OK;
}

/* --- memo --- */

static clt_status memo_put(machine *m, uint64_t index)
{
    value *v;
    CLT_TRY(top(m, &v));
    return clt_index_map_put(&m->memo, (uint32_t)index, v, "the memo of a pickle");
}

static clt_status memo_get(machine *m, uint64_t index)
{
    value *v = clt_index_map_get(&m->memo, (uint32_t)index);
    if (!v)
        REFUSE(m, "%s: the pickle uses number %" PRIu64 " of its memo, which it has not set", m->where,
               index);
    return push(m, v);
}

static clt_status memo_op(machine *m, int bytes, bool put)
{
    uint64_t index;
    CLT_TRY(read_number(m, bytes, &index));
    return put ? memo_put(m, index) : memo_get(m, index);
}

/* --- opcodes --- */

static clt_status duplicate(machine *m)
{
    value *v;
    CLT_TRY(top(m, &v));
    return push(m, v);
}

/* POP removes the top value, or the last mark if no value is above it. */
static clt_status drop(machine *m)
{
    value *v;
    if (m->n_marks && m->depth == floor_of(m)) {
        m->n_marks--;
        return CLT_OK;
    }
    return pop(m, &v);
}

/* BUILD sets an object's attributes. The attributes of a dict, such as its versions, are not kept. */
static clt_status build(machine *m)
{
    value *state, *object;
    CLT_TRY(pop(m, &state));
    CLT_TRY(top(m, &object));
    if (object->kind != CLT_PICKLE_CALL)
        return CLT_OK;
    if (object->state)
        REFUSE(m, "%s: the pickle gives an object its attributes twice", m->where);
    object->state = state;
    return CLT_OK;
}

static clt_status skip(machine *m, size_t bytes)
{
    CLT_TRY(need(m, bytes));
    m->at += bytes;
    return CLT_OK;
}

static clt_status unknown(const machine *m, int op)
{
    REFUSE(m,
           "%s: the pickle has the opcode 0x%02x at byte %td, which files of weights do not need; it is "
           "not read",
           m->where, (unsigned)op, m->at - 1 - m->begin);
}

/* Opcodes that push a value that is stored in the pickle. */
static clt_status run_plain(machine *m, int op)
{
    value *v;
    switch (op) {
    case 'N':
        return push_new(m, CLT_PICKLE_NONE, &v);
    case 0x88: /* NEWTRUE, NEWFALSE */
    case 0x89:
        return push_bool(m, op == 0x88);
    case 'J':
        return push_int(m, 4, true);
    case 'K':
        return push_int(m, 1, false);
    case 'M':
        return push_int(m, 2, false);
    case 0x8a: /* LONG1, LONG4 */
    case 0x8b:
        return push_long(m, op == 0x8a ? 1 : 4);
    case 'G':
        CLT_TRY(skip(m, 8));
        return push_new(m, CLT_PICKLE_NUMBER, &v);
    case 'U': /* a text or bytes, whose length is given in one byte */
    case 'C':
    case 0x8c:
        return push_text(m, 1);
    case 'X': /* with four */
    case 'T':
    case 'B':
        return push_text(m, 4);
    case 0x8d: /* with eight */
    case 0x8e:
    case 0x96:
        return push_text(m, 8);
    case 'c':
        return push_global(m);
    default:
        return unknown(m, op);
    }
}

/* Opcodes that make or fill a collection. */
static clt_status run_collection(machine *m, int op)
{
    value *v;
    switch (op) {
    case '(':
        return push_mark(m);
    case ')':
        return push_new(m, CLT_PICKLE_TUPLE, &v);
    case ']':
        return push_new(m, CLT_PICKLE_LIST, &v);
    case '}':
        return push_new(m, CLT_PICKLE_DICT, &v);
    case 0x8f:
        return push_new(m, CLT_PICKLE_SET, &v);
    case 't':
        return push_marked(m, CLT_PICKLE_TUPLE);
    case 'l':
        return push_marked(m, CLT_PICKLE_LIST);
    case 0x91:
        return push_marked(m, CLT_PICKLE_SET);
    case 0x85: /* TUPLE1 to TUPLE3 */
    case 0x86:
    case 0x87:
        return push_tuple(m, (size_t)(op - 0x84));
    case 'a':
        return extend_by(m, 1, false);
    case 's':
        return extend_by(m, 2, true);
    case 'e':
    case 0x90:
        return extend_marked(m, false);
    case 'u':
        return extend_marked(m, true);
    default:
        return run_plain(m, op);
    }
}

static clt_status run(machine *m, int op)
{
    value *named;
    switch (op) {
    case 0x80: /* PROTO, FRAME */
        return skip(m, 1);
    case 0x95:
        return skip(m, 8);
    case 'q':
    case 'r':
        return memo_op(m, op == 'q' ? 1 : 4, true);
    case 'h':
    case 'j':
        return memo_op(m, op == 'h' ? 1 : 4, false);
    case 0x94: /* MEMOIZE */
        return memo_put(m, m->memo.used);
    case '0':
        return drop(m);
    case '1':
        return pop_mark(m, &m->depth);
    case '2':
        return duplicate(m);
    case 'b':
        return build(m);
    case 'R':
    case 0x81: /* NEWOBJ */
        return call(m);
    case 0x92: /* NEWOBJ_EX: class, arguments, arguments by name */
        CLT_TRY(pop(m, &named));
        return call(m);
    case 0x93:
        return push_stack_global(m);
    case 'Q':
        return wrap(m, CLT_PICKLE_PERSISTENT, 1);
    default:
        return run_collection(m, op);
    }
}

static clt_status run_all(machine *m)
{
    for (;;) {
        CLT_TRY(need(m, 1));
        int op = *m->at++;
        if (op == '.')
            break;
        CLT_TRY(run(m, op));
    }
    return pop(m, &m->out->root);
}

clt_status clt_pickle_read(const uint8_t *bytes, size_t size, const char *where, clt_status code,
                           clt_arena *arena, clt_pickle *out)
{
    *out = (clt_pickle){0};
    machine m = {.at = bytes, .begin = bytes, .end = bytes + size, .arena = arena, .out = out};
    m.where = where;
    m.code = code;
    clt_status status = run_all(&m);
    out->bytes = (size_t)(m.at - bytes);
    free(m.stack);
    clt_index_map_free(&m.memo);
    return status;
}
