/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses instructions that are not arithmetic: memory, control, copies. All others are looked up in the
 * tables by their exact name. This file knows names and operands, but not what an instruction computes. */
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/ptx_parser.h"

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void unknown(ptx_parser *p)
{
    ptx_parse_error(p, "unknown instruction '%s'", p->statement);
}

/* Takes the next part of a name with dots; "" at its end. */
static const char *part(char **name)
{
    char *at = *name, *dot = strchr(at, '.');
    *name = dot ? dot + 1 : at + strlen(at);
    if (dot)
        *dot = '\0';
    return at;
}

static bool space_of(const char *word, ptx_space *space)
{
    static const struct {
        const char *name;
        ptx_space space;
    } list[] = {{"global", PTX_GLOBAL}, {"shared", PTX_SHARED}, {"local", PTX_LOCAL}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcmp(word, list[i].name) == 0) {
            *space = list[i].space;
            return true;
        }
    return false;
}

/* Parses a type such as f32, u16 or b64: its bytes, and whether it has a sign. */
static bool type_of(const char *word, uint32_t *bytes, bool *sign)
{
    char *end;
    unsigned long bits = strchr("fubs", word[0]) && word[0] ? strtoul(word + 1, &end, 10) : 0;
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return false;
    *bytes = (uint32_t)bits / 8;
    *sign = word[0] == 's';
    return *end == '\0';
}

/* ld.param.u64 %rd1, [name]; its value is in the block of parameters. */
static void load_param(ptx_parser *p, ptx_instruction *shape, char **operand, int n)
{
    ptx_operand args[2];
    int64_t offset = 0;
    char *name = n == 2 ? operand[1] : NULL;
    if (!name || name[0] != '[' ||
        !ptx_operand_of(p, operand[0], 0, &args[0])) { /* a register may be wider than the loaded value */
        unknown(p);
        return;
    }
    if (!ptx_address_of(p, name, &args[1], &offset))
        return;
    ptx_instruction *i = ptx_emit(p, PTX_PARAM, args, 1);
    i->offset = offset;
    i->bytes = shape->bytes;
    i->sign = shape->sign;
}

/* Checks .acquire of a load and .release of a store, which order the accesses of all groups: only in global
 * memory, and with a scope of at least the device. */
static bool strength_of(const char *word, bool load, ptx_instruction *shape, bool *scoped)
{
    if (strcmp(word, load ? "acquire" : "release") == 0)
        shape->mode = load ? PTX_ACQUIRE : PTX_RELEASE;
    else if (shape->mode != PTX_WEAK && (strcmp(word, "gpu") == 0 || strcmp(word, "sys") == 0))
        *scoped = true;
    else
        return false;
    return true;
}

/* ld and st: [.volatile|.acquire.scope|.release.scope][.space][.cache][.v2|.v4].type */
static void memory(ptx_parser *p, char *name, char *operands)
{
    static const char *const harmless[] = {"volatile", "nc", "cg", "ca", "cs", "cv", "wb", "wt", "weak"};
    char *operand[PTX_MAX_OPERANDS];
    ptx_operand args[PTX_MAX_OPERANDS];
    bool load = *part(&name) == 'l', typed = false, param = false, scoped = false;
    ptx_instruction shape = {.vector = 1};
    while (*name) {
        const char *word = part(&name);
        bool known = space_of(word, &shape.space) || strength_of(word, load, &shape, &scoped);
        for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
            known |= strcmp(word, harmless[i]) == 0;
        if (strcmp(word, "param") == 0)
            known = param = true;
        if (word[0] == 'v' && (word[1] == '2' || word[1] == '4') && !word[2]) {
            shape.vector = (uint32_t)(word[1] - '0');
            known = true;
        }
        if (!known && !(typed = type_of(word, &shape.bytes, &shape.sign))) {
            unknown(p);
            return;
        }
    }
    int n = ptx_split(operands, true, operand, PTX_MAX_OPERANDS), value = load ? 0 : 1;
    bool strong = shape.mode != PTX_WEAK;
    if (!typed || (param && !load) || n != (int)shape.vector + 1 || scoped != strong ||
        (strong && (shape.space != PTX_GLOBAL || shape.vector != 1))) {
        unknown(p);
        return;
    }
    if (param) {
        load_param(p, &shape, operand, n);
        return;
    }
    if (!ptx_address_of(p, operand[load ? n - 1 : 0], &args[0], &shape.offset))
        return;
    for (uint32_t v = 0; v < shape.vector; v++)
        if (!ptx_operand_of(p, operand[value + (int)v], 0, &args[1 + v]))
            return;
    ptx_instruction *i = ptx_emit(p, load ? PTX_LOAD : PTX_STORE, args, n);
    i->space = shape.space;
    i->bytes = shape.bytes;
    i->vector = shape.vector;
    i->sign = shape.sign;
    i->offset = shape.offset;
    i->mode = shape.mode;
}

/* atom.global.add.u32 %r1, [%rd1], %r2; red has no result. */
static void atomic(ptx_parser *p, char *name, char *operands)
{
    static const struct {
        const char *name;
        ptx_atomic mode;
    } modes[] = {{"add", PTX_ATOM_ADD}, {"exch", PTX_ATOM_EXCH}, {"cas", PTX_ATOM_CAS},
                 {"min", PTX_ATOM_MIN}, {"max", PTX_ATOM_MAX},   {"or", PTX_ATOM_OR},
                 {"and", PTX_ATOM_AND}, {"inc", PTX_ATOM_INC}};
    char *operand[5];
    ptx_operand args[4] = {{0, 0}};
    bool result = starts(name, "atom"), typed = false, found = false;
    uint32_t bytes = 0, mode = 0;
    bool sign = false;
    ptx_space space = PTX_GENERIC;
    part(&name);
    while (*name) {
        const char *word = part(&name);
        bool known = space_of(word, &space) || strcmp(word, "relaxed") == 0 || strcmp(word, "gpu") == 0 ||
                     strcmp(word, "acq_rel") == 0;
        for (size_t i = 0; i < sizeof modes / sizeof modes[0] && !known; i++)
            if (strcmp(word, modes[i].name) == 0) {
                mode = modes[i].mode;
                known = found = true;
            }
        if (!known && (strcmp(word, "f32") == 0 || !(typed = type_of(word, &bytes, &sign)))) {
            unknown(p);
            return;
        }
    }
    int n = ptx_split(operands, true, operand, 5), first = result ? 1 : 0;
    int wanted = first + 2 + (mode == PTX_ATOM_CAS);
    int64_t offset;
    if (!typed || !found || n != wanted || bytes < 4) {
        unknown(p);
        return;
    }
    uint32_t words = bytes == 8 ? 2 : 1;
    if (!ptx_address_of(p, operand[first], &args[0], &offset) ||
        (result && !ptx_operand_of(p, operand[0], words, &args[1])))
        return;
    for (int v = 0; v < n - first - 1; v++)
        if (!ptx_operand_of(p, operand[first + 1 + v], words, &args[2 + v]))
            return;
    ptx_instruction *i = ptx_emit(p, PTX_ATOMIC, args, 3 + (mode == PTX_ATOM_CAS));
    i->space = space;
    i->bytes = bytes;
    i->sign = sign;
    i->offset = offset;
    i->mode = mode;
    i->n = result;
}

static void branch(ptx_parser *p, char *operands)
{
    char *target[2];
    if (ptx_split(operands, true, target, 2) != 1) {
        unknown(p);
        return;
    }
    p->jumps = ptx_grow(p->jumps, &p->jumps_capacity, p->n_jumps, sizeof *p->jumps);
    ptx_emit(p, PTX_BRANCH, NULL, 0);
    ptx_jump *jump = &p->jumps[p->n_jumps++];
    jump->instruction = p->kernel->n_code - 1;
    snprintf(jump->label, sizeof jump->label, "%s", target[0]);
}

/* cp.async.cg.shared.global [to], [from], 16{, bytes}; */
static void copy(ptx_parser *p, char *operands)
{
    char *operand[5];
    ptx_operand args[3] = {{0, 0}};
    int64_t to = 0, from = 0;
    int n = ptx_split(operands, true, operand, 5);
    if (n < 3 || n > 4 || !ptx_address_of(p, operand[0], &args[0], &to) ||
        !ptx_address_of(p, operand[1], &args[1], &from) || !ptx_operand_of(p, operand[n - 1], 1, &args[2])) {
        unknown(p);
        return;
    }
    uint32_t bytes = (uint32_t)strtoul(operand[2], NULL, 10);
    if (to != 0 || from != 0 || (bytes != 4 && bytes != 8 && bytes != 16)) {
        unknown(p);
        return;
    }
    ptx_emit(p, PTX_COPY, args, 3)->bytes = bytes;
}

static bool control(ptx_parser *p, const char *name, char *operands)
{
    if (strcmp(name, "bra") == 0 || strcmp(name, "bra.uni") == 0) {
        branch(p, operands);
    } else if (strcmp(name, "ret") == 0 || strcmp(name, "exit") == 0) {
        ptx_emit(p, PTX_RETURN, NULL, 0);
    } else if (strcmp(name, "bar.sync") == 0 || strcmp(name, "barrier.sync") == 0) {
        if (strcmp(operands, "0") != 0)
            unknown(p);
        ptx_emit(p, PTX_BARRIER, NULL, 0);
    } else if (strcmp(name, "fence.proxy.async") == 0 || strcmp(name, "fence.proxy.async.shared::cta") == 0) {
        ptx_emit(p, PTX_PROXY, NULL, 0);
    } else if (starts(name, "membar.") || starts(name, "fence.acq_rel.") || starts(name, "fence.sc.") ||
               starts(name, "prefetch.")) {
        ptx_emit(p, PTX_NOTHING, NULL, 0);
    } else if (starts(name, "cp.async.cg.shared.global") || starts(name, "cp.async.ca.shared.global")) {
        copy(p, operands);
    } else if (strcmp(name, "cp.async.commit_group") == 0) {
        ptx_emit(p, PTX_COMMIT, NULL, 0);
    } else if (strcmp(name, "cp.async.wait_group") == 0 || strcmp(name, "cp.async.wait_all") == 0) {
        ptx_instruction *i = ptx_emit(p, PTX_WAIT, NULL, 0);
        i->n = strcmp(name, "cp.async.wait_all") == 0 ? 0 : atoi(operands);
    } else {
        return false;
    }
    return true;
}

/* Reads the operands in the order of the form's digits; the operands of cvta and mov may have any size if
 * both have the same. */
static int operands_of(ptx_parser *p, char *operands, const char *form, ptx_operand *args)
{
    char *operand[PTX_MAX_OPERANDS + 1];
    int n = ptx_split(operands, true, operand, PTX_MAX_OPERANDS + 1), wanted = (int)strlen(form);
    if (n != wanted) {
        unknown(p);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        int64_t offset = 0;
        if (operand[i][0] == '[') { /* matrix instructions: an address without an offset */
            if (!ptx_address_of(p, operand[i], &args[i], &offset) || offset != 0) {
                unknown(p);
                return -1;
            }
        } else if (!ptx_operand_of(p, operand[i], form[i] == '0' ? 0 : (uint32_t)(form[i] - '0'), &args[i])) {
            return -1;
        }
    }
    return n;
}

static void arithmetic(ptx_parser *p, const ptx_entry *entry, const ptx_operand *args, int n)
{
    ptx_emit(p, PTX_ALU, args, n)->alu = entry->alu;
}

/* An operand of cvt may have more bits than its type: then the lower bits count. */
static void cut_source(ptx_parser *p, const ptx_entry *entry, ptx_operand *source)
{
    if (entry->form[1] == '2' || source->words == 1)
        return;
    ptx_operand low = ptx_new_units(p, 1, 1);
    arithmetic(p, ptx_alu_find("mov.b64.low"), (ptx_operand[]){low, *source}, 2);
    *source = low;
}

static void convert(ptx_parser *p, const ptx_entry *entry, char *operands)
{
    char *operand[3];
    ptx_operand args[2];
    int n = ptx_split(operands, true, operand, 3);
    if (n != 2 || entry->form[2] != '\0') {
        unknown(p);
        return;
    }
    if (ptx_operand_of(p, operand[0], (uint32_t)(entry->form[0] - '0'), &args[0]) &&
        ptx_operand_of(p, operand[1], 0, &args[1])) {
        cut_source(p, entry, &args[1]);
        arithmetic(p, entry, args, 2);
    }
}

/* mov with braces: two halves into one register, or one register into two halves, with an instruction for
 * each half. */
static void halves(ptx_parser *p, const char *name, char *operands)
{
    char text[2][64], *operand[4];
    ptx_operand args[3];
    bool apart = operands[0] == '{';
    snprintf(text[0], sizeof text[0], "%s.%s", name, apart ? "low" : "pack");
    snprintf(text[1], sizeof text[1], "%s.high", name);
    const ptx_entry *entry[2] = {ptx_alu_find(text[0]), ptx_alu_find(text[1])};
    if (ptx_split(operands, true, operand, 4) != 3 || !entry[0] || !entry[1]) {
        unknown(p);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (!ptx_operand_of(p, operand[i], 0, &args[i]))
            return;
    if (!apart) {
        arithmetic(p, entry[0], args, 3);
        return;
    }
    arithmetic(p, entry[0], (ptx_operand[]){args[0], args[2]}, 2);
    arithmetic(p, entry[1], (ptx_operand[]){args[1], args[2]}, 2);
}

/* bfi.b32 or .b64 d, a, b, first, count: d = b, with `count` bits from bit `first` on replaced by the lowest
 * bits of a. */
static void insert_bits(ptx_parser *p, const char *name, char *operands)
{
    bool wide = strcmp(name, "bfi.b64") == 0;
    ptx_operand o[5];
    if (operands_of(p, operands, wide ? "22211" : "11111", o) < 0)
        return;
    ptx_operand mask = ptx_new_units(p, 1 + wide, 1), shifted = ptx_new_units(p, 1 + wide, 1);
    arithmetic(p, ptx_alu_find(wide ? "bfi.b64.mask" : "bfi.b32.mask"), (ptx_operand[]){mask, o[3], o[4]}, 3);
    arithmetic(p, ptx_alu_find(wide ? "shl.b64" : "shl.b32"), (ptx_operand[]){shifted, o[1], o[3]}, 3);
    arithmetic(p, ptx_alu_find(wide ? "bfi.b64.join" : "bfi.b32.join"),
               (ptx_operand[]){o[0], shifted, o[2], mask}, 4);
}

void ptx_statement(ptx_parser *p, char *name, char *operands)
{
    ptx_operand args[PTX_MAX_OPERANDS];
    if (starts(name, "ld.") || starts(name, "st.")) {
        memory(p, name, operands);
        return;
    }
    if (starts(name, "atom.") || starts(name, "red.")) {
        atomic(p, name, operands);
        return;
    }
    if (control(p, name, operands) || ptx_product_statement(p, name, operands))
        return;
    if (starts(name, "mov.b") && strchr(operands, '{')) {
        halves(p, name, operands);
        return;
    }
    if (strcmp(name, "bfi.b32") == 0 || strcmp(name, "bfi.b64") == 0) {
        insert_bits(p, name, operands);
        return;
    }
    const ptx_entry *entry = ptx_alu_find(name);
    if (entry && starts(name, "cvt.") && entry->form[2] == '\0') {
        convert(p, entry, operands);
        return;
    }
    if (entry) {
        int n = operands_of(p, operands, entry->form, args);
        if (n > 0)
            arithmetic(p, entry, args, n);
        return;
    }
    const ptx_warp_entry *warp = ptx_warp_find(name);
    if (!warp) {
        unknown(p);
        return;
    }
    int n = operands_of(p, operands, warp->form, args);
    if (n < 0)
        return;
    ptx_instruction *i = ptx_emit(p, PTX_WARP, args, n);
    i->warp_op = warp->op;
    i->mode = warp->mode;
}
