/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two halves of the parser: ptx_parse.c knows the structure of a module, ptx_statement.c knows
 * the instructions that are not in a table. No other file includes this header. */
#ifndef TESTS_PTX_PTX_PARSER_H
#define TESTS_PTX_PTX_PARSER_H

#include "tests/ptx/ptx.h"

typedef enum ptx_name_kind {
    PTX_NAME_REGISTER,
    PTX_NAME_LABEL,
    PTX_NAME_MEMORY,
    PTX_NAME_PARAM
} ptx_name_kind;

typedef struct ptx_name {
    char text[128];
    ptx_name_kind kind;
    uint32_t count;   /* number of registers text0, text1 ... in a row; 0: one register */
    ptx_operand at;   /* REGISTER; LABEL: index of the instruction */
    uint64_t address; /* MEMORY; PARAM: offset */
} ptx_name;

typedef struct ptx_jump {
    size_t instruction;
    char label[128];
} ptx_jump;

typedef struct ptx_parser {
    ptx_module *module;
    ptx_kernel *kernel;
    ptx_name *names;
    ptx_jump *jumps;
    size_t n_names, n_jumps;
    size_t names_capacity, jumps_capacity, strings_capacity, starts_capacity, code_capacity, params_capacity,
        kernels_capacity;
    int32_t guard;
    bool guard_not;
    char statement[600]; /* for messages */
} ptx_parser;

void ptx_parse_error(ptx_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
ptx_operand ptx_new_units(ptx_parser *p, uint32_t words, uint32_t count);
void *ptx_grow(void *items, size_t *capacity, size_t count, size_t size);
/* Parses an operand. words: size of the register; 0: any size. */
bool ptx_operand_of(ptx_parser *p, const char *text, uint32_t words, ptx_operand *out);
bool ptx_address_of(ptx_parser *p, char *text, ptx_operand *out, int64_t *offset);
int ptx_split(char *text, bool flat, char **out, int most);
ptx_instruction *ptx_emit(ptx_parser *p, ptx_kind kind, const ptx_operand *args, int n_args);

/* Parses one instruction; may write into `name` and `operands`. */
void ptx_statement(ptx_parser *p, char *name, char *operands);

/* Parses wgmma.mma_async; false: `name` is another instruction. In ptx_products.c. */
bool ptx_product_statement(ptx_parser *p, const char *name, char *operands);

#endif
