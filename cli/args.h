/* SPDX-License-Identifier: Apache-2.0
 *
 * Option parser: a table of options bound to variables. Unknown options are errors with the nearest name,
 * every command has
 * --help, and values are checked where they are read. Knows nothing of what the options do. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef enum args_kind {
    ARGS_FLAG,  /* bool * */
    ARGS_TEXT,  /* const char ** */
    ARGS_INT,   /* int64_t *, within min..max */
    ARGS_FLOAT, /* double *, within min..max */
    ARGS_LATER  /* known, but not there yet: takes a value and is refused */
} args_kind;

typedef struct args_option {
    const char *name;  /* "--out" */
    const char *value; /* "DIR"; NULL for a flag */
    const char *help;
    args_kind kind;
    void *target;
    double min, max;
} args_option;

typedef struct args_usage {
    const char *command;  /* "train" */
    const char *operands; /* "CONFIG [key.sub=value ...]" or "" */
    const char *summary;
    const args_option *options;     /* ends with a NULL name */
    int min_operands, max_operands; /* overrides are not counted */
    bool overrides;                 /* operands of the form section.key=value are overrides */
} args_usage;

#define ARGS_MAX 256

typedef struct args_result {
    bool help; /* --help was given and printed: return CLT_OK */
    int n_operands, n_overrides;
    const char *operands[ARGS_MAX];
    const char *overrides[ARGS_MAX];
} args_result;

/* argv[0] is the command's name. CLT_EUSAGE says what is wrong. */
clt_status args_parse(const args_usage *usage, int argc, char **argv, args_result *out);

#endif
