/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of a layer: checks a JSON object against the op's attribute list. All problems of a layer are
 * reported together, with its position in the file where there is one. */
#include <stdio.h>
#include <string.h>

#include "engine/ops/node.h"
#include "engine/ops/op.h"

typedef struct attr_problems {
    clt_str text;
    const clt_node *node;
    const clt_json_doc *doc;
    int count;
    uint32_t said; /* bit i: a message has already named the required attribute i */
} attr_problems;

static void problem(attr_problems *p, const clt_json *value, const char *key, const char *what)
{
    if (p->count++)
        clt_str_append(&p->text, "\n");
    if (p->doc && value) {
        int line, column;
        clt_json_position(value, &line, &column);
        if (line > 0)
            clt_str_printf(&p->text, "%s:%d:%d: ", clt_json_source(p->doc), line, column);
    }
    clt_str_printf(&p->text, "layer '%s' (%s): attribute '%s': %s", p->node->name, p->node->op->name, key,
                   what);
}

static bool is_layer_key(const char *key)
{
    static const char *const keys[] = {"op", "name", "inputs", "share"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* Position of `word` in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *word)
{
    size_t length = strlen(word);
    int index = 0;
    for (const char *c = choices; *c; index++) {
        size_t n = strcspn(c, "|");
        if (n == length && memcmp(c, word, n) == 0)
            return index;
        c += n + (c[n] == '|');
    }
    return -1;
}

static const char *type_text(clt_attr_type type)
{
    static const char *const names[] = {"an integer",
                                        "a number",
                                        "true or false",
                                        "a string",
                                        "a string",
                                        "a list of integers",
                                        "a number or a list of numbers"};
    return names[type];
}

static void set_default(const clt_attr_spec *spec, clt_attr *attr)
{
    attr->i = (int64_t)spec->default_value;
    attr->f = spec->default_value;
    attr->b = spec->default_value != 0;
    attr->choice = (int)spec->default_value;
    if (spec->type == CLT_ATTR_FLOATS) {
        attr->n_list = 1;
        attr->number = &spec->default_value;
    }
}

static bool in_range(const clt_attr_spec *spec, double value)
{
    return (spec->min == 0 && spec->max == 0) || (value >= spec->min && value <= spec->max);
}

/* Reads a list of integers; a plain integer is a list of one. False: it is neither. */
static bool read_list(const clt_attr_spec *spec, const clt_json *value, clt_attr *attr)
{
    if (clt_json_int(value, &attr->list[0]) && in_range(spec, (double)attr->list[0])) {
        attr->n_list = 1;
        return true;
    }
    if (clt_json_typeof(value) != CLT_JSON_ARRAY || clt_json_count(value) > CLT_MAX_DIMS)
        return false;
    for (const clt_json *e = clt_json_first(value); e; e = clt_json_next(e)) {
        int64_t i;
        if (!clt_json_int(e, &i) || !in_range(spec, (double)i))
            return false;
        attr->list[attr->n_list++] = i;
    }
    return true;
}

/* Reads a list of numbers; a plain number is a list of one. False: it is neither. */
static bool read_numbers(clt_graph *graph, const clt_attr_spec *spec, const clt_json *value, clt_attr *attr)
{
    size_t count = clt_json_typeof(value) == CLT_JSON_ARRAY ? clt_json_count(value) : 1;
    double *numbers = clt_arena_alloc(graph->arena, count * sizeof *numbers + 1);
    if (!numbers || count < 1 || count > CLT_MAX_LIST)
        return false;
    attr->n_list = 0;
    attr->number = numbers;
    for (const clt_json *e = NULL; (e = clt_json_entry(value, e));) {
        if (clt_json_typeof(e) != CLT_JSON_NUMBER || !in_range(spec, clt_json_number(e)))
            return false;
        numbers[attr->n_list++] = clt_json_number(e);
    }
    attr->f = attr->number[0];
    return true;
}

/* Reads one value; false when its type is wrong. */
static bool read_value(clt_graph *graph, const clt_attr_spec *spec, const clt_json *value, clt_attr *attr)
{
    clt_json_type type = clt_json_typeof(value);
    switch (spec->type) {
    case CLT_ATTR_INT:
        if (!clt_json_int(value, &attr->i))
            return false;
        attr->f = (double)attr->i;
        return true;
    case CLT_ATTR_FLOAT:
        if (type != CLT_JSON_NUMBER)
            return false;
        attr->f = clt_json_number(value);
        return true;
    case CLT_ATTR_BOOL:
        if (type != CLT_JSON_BOOL)
            return false;
        attr->b = clt_json_bool(value);
        return true;
    case CLT_ATTR_CHOICE:
    case CLT_ATTR_STRING:
        if (type != CLT_JSON_STRING)
            return false;
        attr->s = clt_arena_strdup(graph->arena, clt_json_string(value));
        return attr->s != NULL;
    case CLT_ATTR_INTS:
        return read_list(spec, value, attr);
    case CLT_ATTR_FLOATS:
        return read_numbers(graph, spec, value, attr);
    }
    return false;
}

/* Checks the range of a number, or looks a word up among the choices. `value` gives the position for
 * messages; NULL: the attribute was given by code. */
static void check_value(attr_problems *p, const clt_attr_spec *spec, const clt_json *value, clt_attr *attr)
{
    char what[1024]; /* room for all choices of an attribute */
    if ((spec->type == CLT_ATTR_INT || spec->type == CLT_ATTR_FLOAT) && !in_range(spec, attr->f)) {
        snprintf(what, sizeof what,
                 spec->type == CLT_ATTR_INT ? "%.0f is out of range; valid: %.0f to %.0f"
                                            : "%g is out of range; valid: %g to %g",
                 attr->f, spec->min, spec->max);
        problem(p, value, spec->name, what);
    }
    if (spec->type == CLT_ATTR_CHOICE) {
        attr->choice = choice_index(spec->choices, attr->s);
        if (attr->choice < 0) {
            snprintf(what, sizeof what, "'%.60s' is not one of %s", attr->s, spec->choices);
            problem(p, value, spec->name, what);
        }
    }
}

static void parse_one(clt_graph *graph, attr_problems *p, const clt_attr_spec *spec, const clt_json *value,
                      clt_attr *attr)
{
    char what[256];
    attr->set = true;
    if (read_value(graph, spec, value, attr)) {
        check_value(p, spec, value, attr);
        return;
    }
    snprintf(what, sizeof what, "expected %s, got %s", type_text(spec->type),
             clt_json_type_name(clt_json_typeof(value)));
    problem(p, value, spec->name, what);
}

/* Guesses which attribute an unknown key stands for: the most similar required attribute that is missing;
 * else, if only one required attribute is missing and no other key is unknown, that one; else the most
 * similar of all names. *missing: the result is a missing required attribute. */
static const char *meant(const clt_op *op, const clt_json *attrs, const char *key, bool *missing)
{
    const char *required[CLT_MAX_ATTRS], *names[CLT_MAX_ATTRS + 4] = {"op", "name", "inputs", "share"};
    size_t n_required = 0, count = 4, wrong = 0;
    for (int i = 0; i < op->n_attrs; i++) {
        names[count++] = op->attrs[i].name;
        if (op->attrs[i].required && !clt_json_get(attrs, op->attrs[i].name))
            required[n_required++] = op->attrs[i].name;
    }
    for (const clt_json *value = clt_json_first(attrs); value; value = clt_json_next(value)) {
        size_t i = 0;
        while (i < count && strcmp(clt_json_key(value), names[i]) != 0)
            i++;
        wrong += i == count;
    }
    const char *near = clt_nearest_name(key, required, n_required);
    if (!near && n_required == 1 && wrong == 1)
        near = required[0];
    *missing = near != NULL;
    return near ? near : clt_nearest_name(key, names, count);
}

static void unknown_key(attr_problems *p, const clt_json *attrs, const clt_json *value, const char *key)
{
    const clt_op *op = p->node->op;
    bool missing;
    const char *near = meant(op, attrs, key, &missing);
    char what[512];
    int n = snprintf(what, sizeof what, "is unknown");
    if (near)
        n += snprintf(what + n, sizeof what - (size_t)n, "; did you mean '%s'%s?", near,
                      missing ? ", which is required" : "");
    n += snprintf(what + n, sizeof what - (size_t)n, " (this op has:");
    for (int i = 0; i < op->n_attrs && n < (int)sizeof what - 64; i++)
        n += snprintf(what + n, sizeof what - (size_t)n, " %s", op->attrs[i].name);
    snprintf(what + n, sizeof what - (size_t)n, "%s)", op->n_attrs ? "" : " none");
    problem(p, value, key, what);
    for (int i = 0; i < op->n_attrs; i++) /* so that it is not also reported as missing */
        if (missing && op->attrs[i].name == near)
            p->said |= 1u << i;
}

static void set_defaults(clt_node *node)
{
    for (int i = 0; i < node->op->n_attrs; i++)
        set_default(&node->op->attrs[i], &node->attr[i]);
}

static clt_status finish(attr_problems *p, const clt_json *attrs)
{
    const clt_node *node = p->node;
    for (int i = 0; i < node->op->n_attrs; i++)
        if (node->op->attrs[i].required && !node->attr[i].set && !((p->said >> i) & 1))
            problem(p, attrs, node->op->attrs[i].name, "is required");
    clt_status status = clt_str_check(&p->text);
    if (status == CLT_OK && p->count)
        status = clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "%s", p->text.text);
    clt_str_free(&p->text);
    return status;
}

static bool take_numbers(clt_graph *graph, const clt_attr_given *given, clt_attr *attr)
{
    size_t count = (size_t)given->n_list;
    double *numbers = clt_arena_alloc(graph->arena, count * sizeof *numbers + 1);
    if (!numbers)
        return false;
    memcpy(numbers, given->numbers, count * sizeof *numbers);
    attr->number = numbers;
    attr->f = count > 0 ? numbers[0] : 0;
    return true;
}

/* Converts an attribute given by code to the type that the op declares; an integer may stand for a float. */
static bool take_value(clt_graph *graph, const clt_attr_spec *spec, const clt_attr_given *given,
                       clt_attr *attr)
{
    bool number = spec->type == CLT_ATTR_FLOAT && given->type == CLT_ATTR_INT;
    bool word = spec->type == CLT_ATTR_STRING && given->type == CLT_ATTR_CHOICE;
    if ((spec->type != given->type && !number && !word) ||
        given->n_list > (given->numbers ? CLT_MAX_LIST : CLT_MAX_DIMS))
        return false;
    attr->i = given->i;
    attr->b = given->i != 0;
    attr->f = given->type == CLT_ATTR_FLOAT ? given->f : (double)given->i;
    attr->n_list = given->n_list;
    for (int i = 0; !given->numbers && i < given->n_list; i++)
        attr->list[i] = given->list[i];
    if (given->numbers && !take_numbers(graph, given, attr))
        return false;
    if (given->word)
        attr->s = clt_arena_strdup(graph->arena, given->word);
    return !given->word || attr->s;
}

clt_status clt_attrs_take(clt_graph *graph, clt_node *node, const clt_attr_given *attrs)
{
    const clt_op *op = node->op;
    attr_problems p = {.node = node};
    set_defaults(node);
    for (; attrs && attrs->name; attrs++) {
        int i = 0;
        while (i < op->n_attrs && strcmp(op->attrs[i].name, attrs->name) != 0)
            i++;
        if (i == op->n_attrs || !take_value(graph, &op->attrs[i], attrs, &node->attr[i]))
            CLT_FAIL(CLT_EINTERNAL, "layer '%s' (%s): there is no attribute '%s' of this type", node->name,
                     op->name, attrs->name);
        node->attr[i].set = true;
        check_value(&p, &op->attrs[i], NULL, &node->attr[i]);
    }
    return finish(&p, NULL);
}

clt_status clt_attrs_parse(clt_graph *graph, clt_node *node, const clt_json *attrs, const clt_json_doc *doc)
{
    const clt_op *op = node->op;
    attr_problems p = {.node = node, .doc = doc};
    set_defaults(node);
    if (attrs && clt_json_typeof(attrs) != CLT_JSON_OBJECT)
        CLT_FAIL(CLT_ECONFIG, "layer '%s' (%s): attributes must be a JSON object", node->name, op->name);
    for (const clt_json *value = clt_json_first(attrs); value; value = clt_json_next(value)) {
        const char *key = clt_json_key(value);
        int index = 0;
        while (index < op->n_attrs && strcmp(op->attrs[index].name, key) != 0)
            index++;
        if (index < op->n_attrs)
            parse_one(graph, &p, &op->attrs[index], value, &node->attr[index]);
        else if (!is_layer_key(key))
            unknown_key(&p, attrs, value, key);
    }
    return finish(&p, attrs);
}
