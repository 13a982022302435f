/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts PTX text, as LLVM writes it, to instructions. A statement that is not known makes its kernel an
 * error, so that nothing is ever skipped. This file must not run anything. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_parser.h"

void ptx_parse_error(ptx_parser *p, const char *format, ...)
{
    va_list list;
    if (!p->kernel || p->kernel->error[0])
        return;
    va_start(list, format);
    vsnprintf(p->kernel->error, sizeof p->kernel->error, format, list);
    va_end(list);
}

void *ptx_grow(void *items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return items;
    *capacity = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(items, *capacity * size);
    if (!grown)
        abort(); /* the tests cannot run without memory */
    return grown;
}

static const char *keep(ptx_parser *p, const char *text)
{
    char *copy = strdup(text);
    p->module->strings =
        ptx_grow(p->module->strings, &p->strings_capacity, p->module->n_strings, sizeof copy);
    p->module->strings[p->module->n_strings++] = copy;
    return copy;
}

/* --- names --- */

ptx_operand ptx_new_units(ptx_parser *p, uint32_t words, uint32_t count)
{
    ptx_operand at = {p->kernel->units, words};
    p->kernel->units += words * count;
    return at;
}

/* Finds the latest definition of a name, since blocks in braces may define a name again. */
static ptx_name *find_name(ptx_parser *p, const char *text)
{
    for (size_t i = p->n_names; i-- > 0;)
        if (strcmp(p->names[i].text, text) == 0)
            return &p->names[i];
    return NULL;
}

static ptx_name *add_name(ptx_parser *p, const char *text)
{
    p->names = ptx_grow(p->names, &p->names_capacity, p->n_names, sizeof *p->names);
    ptx_name *name = &p->names[p->n_names++];
    memset(name, 0, sizeof *name);
    snprintf(name->text, sizeof name->text, "%s", text);
    return name;
}

static uint32_t type_bits(const char *type)
{
    if (strcmp(type, "pred") == 0)
        return 1;
    return (uint32_t)atoi(type + 1);
}

/* .reg .b32 %r<351>; or .reg .b16 l, h; */
static void declare_registers(ptx_parser *p, const char *type, char *list)
{
    char *save = NULL;
    uint32_t words = type_bits(type) == 64 ? 2 : 1;
    for (char *item = strtok_r(list, ", \t", &save); item; item = strtok_r(NULL, ", \t", &save)) {
        char *open = strchr(item, '<');
        uint32_t count = open ? (uint32_t)atoi(open + 1) : 1;
        if (open)
            *open = '\0';
        ptx_name *name = add_name(p, item);
        name->kind = PTX_NAME_REGISTER;
        name->count = open ? count : 0;
        name->at = ptx_new_units(p, words, count);
    }
}

static bool find_register(ptx_parser *p, const char *text, ptx_operand *out)
{
    ptx_name *name = find_name(p, text);
    if (name && name->kind == PTX_NAME_REGISTER && name->count == 0) {
        *out = name->at;
        return true;
    }
    char prefix[64];
    size_t length = strlen(text);
    while (length > 0 && isdigit((unsigned char)text[length - 1]))
        length--;
    if (length == 0 || length >= sizeof prefix || text[length] == '\0')
        return false;
    memcpy(prefix, text, length);
    prefix[length] = '\0';
    name = find_name(p, prefix);
    uint32_t number = (uint32_t)strtoul(text + length, NULL, 10);
    if (!name || name->kind != PTX_NAME_REGISTER || number >= name->count)
        return false;
    *out = (ptx_operand){name->at.unit + number * name->at.words, name->at.words};
    return true;
}

/* --- operands --- */

static ptx_operand start_value(ptx_parser *p, ptx_special what, int axis, uint64_t value, uint32_t words)
{
    ptx_kernel *k = p->kernel;
    for (size_t i = 0; i < k->n_starts; i++)
        if (k->starts[i].what == what && k->starts[i].axis == axis && k->starts[i].value == value &&
            k->starts[i].at.words == words)
            return k->starts[i].at;
    k->starts = ptx_grow(k->starts, &p->starts_capacity, k->n_starts, sizeof *k->starts);
    k->starts[k->n_starts] = (ptx_start){ptx_new_units(p, words, 1), what, axis, value};
    return k->starts[k->n_starts++].at;
}

static bool special(ptx_parser *p, const char *text, uint32_t words, ptx_operand *out)
{
    static const struct {
        const char *name;
        ptx_special what;
    } list[] = {{"%tid.", PTX_TID}, {"%ntid.", PTX_NTID}, {"%ctaid.", PTX_CTAID}, {"%nctaid.", PTX_NCTAID}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        size_t length = strlen(list[i].name);
        if (strncmp(text, list[i].name, length) == 0) {
            *out = start_value(p, list[i].what, text[length] - 'x', 0, words);
            return true;
        }
    }
    /* Launch data in NVIDIA's OpenCL: %envreg0 to 2 are the offsets of the launch in groups, 3 to 5 its
     * offsets in items (the engine uses none), 6 to 8 the numbers of groups. */
    if (strncmp(text, "%envreg", 7) == 0 && text[7] >= '0' && text[7] <= '8' && text[8] == '\0') {
        *out = text[7] < '6' ? start_value(p, PTX_CONSTANT, 0, 0, words)
                             : start_value(p, PTX_NCTAID, text[7] - '6', 0, words);
        return true;
    }
    if (strcmp(text, "%laneid") != 0)
        return false;
    *out = start_value(p, PTX_LANEID, 0, 0, words);
    return true;
}

static bool literal(const char *text, uint64_t *value)
{
    char *end;
    if (text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
        *value = strtoull(text + 2, &end, 16);
        return *end == '\0';
    }
    if (!isdigit((unsigned char)text[0]) && text[0] != '-')
        return false;
    *value = text[0] == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    return *end == '\0' && end != text;
}

bool ptx_operand_of(ptx_parser *p, const char *text, uint32_t words, ptx_operand *out)
{
    uint64_t value;
    ptx_name *name;
    if (special(p, text, words, out))
        return true;
    if (find_register(p, text, out)) {
        if (words != 0 && out->words != words)
            ptx_parse_error(p, "register %s has another size than '%s' wants", text, p->statement);
        return true;
    }
    if (literal(text, &value)) {
        if (words != 2)
            value = (uint32_t)value;
        *out = start_value(p, PTX_CONSTANT, 0, value, words ? words : 1);
        return true;
    }
    if ((name = find_name(p, text)) && name->kind == PTX_NAME_MEMORY) {
        *out = start_value(p, PTX_CONSTANT, 0, name->address, words ? words : 2);
        return true;
    }
    ptx_parse_error(p, "unknown operand '%s' in '%s'", text, p->statement);
    return false;
}

/* Parses "[base+offset]" into the operand `base` and the number `offset`. */
bool ptx_address_of(ptx_parser *p, char *text, ptx_operand *out, int64_t *offset)
{
    size_t length = strlen(text);
    if (length < 3 || text[0] != '[' || text[length - 1] != ']') {
        ptx_parse_error(p, "no address: '%s' in '%s'", text, p->statement);
        return false;
    }
    text[length - 1] = '\0';
    text++;
    char *plus = strchr(text, '+');
    *offset = plus ? strtoll(plus + 1, NULL, 0) : 0;
    if (plus)
        *plus = '\0';
    ptx_name *name = find_name(p, text);
    if (name && name->kind == PTX_NAME_PARAM) {
        *offset += (int64_t)name->address;
        return true;
    }
    return ptx_operand_of(p, text, 0, out);
}

/* --- declarations --- */

static void memory_name(ptx_parser *p, const char *statement, uint32_t *bytes, uint64_t first)
{
    unsigned align = 1, size = 0;
    char name[128];
    const char *at = strstr(statement, ".align");
    if (at)
        sscanf(at, ".align %u", &align);
    const char *bracket = strrchr(statement, '[');
    const char *type = strstr(statement, ".b8");
    if (!bracket || !type || sscanf(type, ".b8 %127[^[]", name) != 1 || sscanf(bracket, "[%u]", &size) != 1) {
        ptx_parse_error(p, "unknown declaration '%s'", statement);
        return;
    }
    *bytes = (*bytes + align - 1) / align * align;
    ptx_name *entry = add_name(p, name);
    entry->kind = PTX_NAME_MEMORY;
    entry->address = first + *bytes;
    *bytes += size;
}

/* True when the statement is a declaration. */
static bool declaration(ptx_parser *p, char *statement)
{
    char type[16];
    int used = 0;
    if (sscanf(statement, ".reg .%15s %n", type, &used) == 1 && used > 0) {
        declare_registers(p, type, statement + used);
        return true;
    }
    if (strncmp(statement, ".shared", 7) == 0) {
        memory_name(p, statement, &p->kernel->shared_bytes, PTX_SHARED_FIRST);
        return true;
    }
    if (strncmp(statement, ".local", 6) == 0) {
        memory_name(p, statement, &p->kernel->local_bytes, PTX_LOCAL_FIRST);
        return true;
    }
    return strncmp(statement, ".pragma", 7) == 0 || strncmp(statement, ".loc", 4) == 0 ||
           strncmp(statement, ".file", 5) == 0;
}

static void label(ptx_parser *p, const char *name)
{
    ptx_name *entry = add_name(p, name);
    entry->kind = PTX_NAME_LABEL;
    entry->at.unit = (uint32_t)p->kernel->n_code;
}

/* --- statements --- */

/* Splits operands at commas outside of brackets and braces; removes the braces if `flat`. */
int ptx_split(char *text, bool flat, char **out, int most)
{
    int n = 0, depth = 0;
    char *start = text;
    for (char *c = text;; c++) {
        if (*c == '{' || *c == '}') {
            depth += *c == '{' ? 1 : -1;
            if (flat)
                *c = ' ';
        } else if ((*c == ',' && (flat || depth == 0)) || *c == '\0') {
            bool last = *c == '\0';
            *c = '\0';
            while (isspace((unsigned char)*start))
                start++;
            for (char *end = start + strlen(start); end > start && isspace((unsigned char)end[-1]);)
                *--end = '\0';
            if (*start && n < most)
                out[n++] = start;
            if (last)
                return n;
            start = c + 1;
        }
    }
}

ptx_instruction *ptx_emit(ptx_parser *p, ptx_kind kind, const ptx_operand *args, int n_args)
{
    ptx_kernel *k = p->kernel;
    k->code = ptx_grow(k->code, &p->code_capacity, k->n_code, sizeof *k->code);
    ptx_instruction *i = &k->code[k->n_code++];
    memset(i, 0, sizeof *i);
    i->kind = kind;
    i->guard = p->guard;
    i->guard_not = p->guard_not;
    i->text = keep(p, p->statement);
    i->n_args = n_args;
    if (n_args) {
        i->args = malloc((size_t)n_args * sizeof *args);
        memcpy(i->args, args, (size_t)n_args * sizeof *args);
    }
    return i;
}

static void statement(ptx_parser *p, char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    if (p->kernel->error[0] && strncmp(text, "call", 4) == 0 && !strstr(p->kernel->error, "calls"))
        snprintf(p->kernel->error, sizeof p->kernel->error, "the kernel calls a function: '%.200s'", text);
    if (!*text || p->kernel->error[0])
        return;
    snprintf(p->statement, sizeof p->statement, "%s", text);
    if (declaration(p, text))
        return;
    p->guard = -1;
    p->guard_not = false;
    if (*text == '@') {
        ptx_operand at;
        p->guard_not = text[1] == '!';
        char *name = text + 1 + p->guard_not, *end = name + strcspn(name, " \t");
        if (*end)
            *end++ = '\0';
        if (!ptx_operand_of(p, name, 1, &at))
            return;
        p->guard = (int32_t)at.unit;
        text = end + strspn(end, " \t");
    }
    char *operands = text + strcspn(text, " \t{");
    if (*operands && *operands != '{')
        *operands++ = '\0';
    ptx_statement(p, text, operands + strspn(operands, " \t"));
}

/* --- bodies --- */

static void resolve_labels(ptx_parser *p)
{
    for (size_t i = 0; i < p->n_jumps; i++) {
        ptx_name *name = find_name(p, p->jumps[i].label);
        if (name && name->kind == PTX_NAME_LABEL)
            p->kernel->code[p->jumps[i].instruction].target = name->at.unit;
        else
            ptx_parse_error(p, "no label '%s'", p->jumps[i].label);
    }
    p->n_jumps = 0;
}

/* Takes the next piece of a body: text up to a semicolon, a label with its colon, or a brace. */
static char *body(ptx_parser *p, char *at)
{
    int depth = 1;
    while (depth > 0) {
        while (isspace((unsigned char)*at))
            at++;
        if (*at == '\0') {
            ptx_parse_error(p, "the kernel has no end");
            return at;
        }
        if (*at == '{' || *at == '}') {
            depth += *at++ == '{' ? 1 : -1;
            continue;
        }
        size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$");
        if (word > 0 && at[word] == ':' && at[word + 1] != ':') {
            at[word] = '\0';
            label(p, at);
            at += word + 1;
            continue;
        }
        char *end = strchr(at, ';');
        if (!end) {
            ptx_parse_error(p, "a statement has no end: '%.80s'", at);
            return at + strlen(at);
        }
        *end = '\0';
        for (char *c = at; *c; c++)
            if (*c == '\n' || *c == '\t')
                *c = ' ';
        statement(p, at);
        at = end + 1;
    }
    return at;
}

static void parameter(ptx_parser *p, char *text)
{
    ptx_kernel *k = p->kernel;
    char type[16] = "", *name = text + strlen(text);
    const char *at = strstr(text, ".param");
    if (!at || sscanf(at, ".param .%15s", type) != 1) {
        ptx_parse_error(p, "unknown parameter '%s'", text);
        return;
    }
    while (name > text && !isspace((unsigned char)name[-1]))
        name--;
    uint32_t bytes = type_bits(type) / 8;
    k->params = ptx_grow(k->params, &p->params_capacity, k->n_params, sizeof *k->params);
    ptx_param *param = &k->params[k->n_params++];
    k->param_bytes = (k->param_bytes + bytes - 1) / bytes * bytes;
    *param = (ptx_param){PTX_VALUE, k->param_bytes, bytes};
    if (strstr(text, ".ptr"))
        param->kind = strstr(text, ".shared") ? PTX_SHARED_BUFFER : PTX_BUFFER;
    k->param_bytes += bytes;
    ptx_name *entry = add_name(p, name);
    entry->kind = PTX_NAME_PARAM;
    entry->address = param->offset;
}

static char *entry(ptx_parser *p, char *at)
{
    ptx_module *m = p->module;
    char *open = strchr(at, '('), *close = open ? strchr(open, ')') : NULL,
         *start = close ? strchr(close, '{') : NULL;
    if (!start)
        return at + strlen(at);
    m->kernels = ptx_grow(m->kernels, &p->kernels_capacity, m->n_kernels, sizeof *m->kernels);
    p->kernel = &m->kernels[m->n_kernels++];
    memset(p->kernel, 0, sizeof *p->kernel);
    p->n_names = p->starts_capacity = p->code_capacity = p->params_capacity = 0;
    sscanf(at, ".entry %127[A-Za-z0-9_$]", p->kernel->name);
    char directives[400];
    snprintf(directives, sizeof directives, "%.*s", (int)(start - close - 1), close + 1);
    const char *required = strstr(directives, ".reqntid");
    if (required)
        sscanf(required, ".reqntid %u, %u, %u", &p->kernel->group[0], &p->kernel->group[1],
               &p->kernel->group[2]);
    *close = '\0';
    char *params[PTX_MAX_OPERANDS * 4];
    int n = ptx_split(open + 1, true, params, PTX_MAX_OPERANDS * 4);
    for (int i = 0; i < n; i++)
        parameter(p, params[i]);
    char *end = body(p, start + 1);
    resolve_labels(p);
    p->statement[0] = '\0';
    p->guard = -1;
    ptx_emit(p, PTX_RETURN, NULL, 0);
    p->kernel = NULL;
    return end;
}

static void strip_comments(char *text)
{
    char *out = text;
    for (char *in = text; *in;) {
        if (in[0] == '/' && in[1] == '/') {
            in += strcspn(in, "\n");
        } else if (in[0] == '/' && in[1] == '*') {
            char *end = strstr(in + 2, "*/");
            in = end ? end + 2 : in + strlen(in);
        } else {
            *out++ = *in++;
        }
    }
    *out = '\0';
}

bool ptx_parse(const char *text, ptx_module *module, char message[PTX_TEXT])
{
    ptx_parser parser = {.module = module};
    *module = (ptx_module){.text = strdup(text)};
    strip_comments(module->text);
    char *at = module->text;
    while ((at = strstr(at, ".entry")))
        at = entry(&parser, at);
    free(parser.names);
    free(parser.jumps);
    if (module->n_kernels == 0)
        snprintf(message, PTX_TEXT, "there is no kernel in the module");
    return module->n_kernels > 0;
}

void ptx_module_free(ptx_module *module)
{
    for (size_t k = 0; k < module->n_kernels; k++) {
        for (size_t i = 0; i < module->kernels[k].n_code; i++)
            free(module->kernels[k].code[i].args);
        free(module->kernels[k].code);
        free(module->kernels[k].params);
        free(module->kernels[k].starts);
    }
    for (size_t i = 0; i < module->n_strings; i++)
        free(module->strings[i]);
    free(module->strings);
    free(module->kernels);
    free(module->text);
    memset(module, 0, sizeof *module);
}

ptx_kernel *ptx_find(ptx_module *module, const char *name)
{
    for (size_t k = 0; k < module->n_kernels; k++)
        if (strcmp(module->kernels[k].name, name) == 0)
            return &module->kernels[k];
    return NULL;
}
