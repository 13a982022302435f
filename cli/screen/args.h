/* SPDX-License-Identifier: Apache-2.0
 *
 * Option parser: a table connects options with variables. An unknown option is an error that suggests the
 * most similar name. Every command has --help and --color, and values are checked when they are parsed. Does
 * not know what the options do. */
#ifndef CLI_SCREEN_ARGS_H
#define CLI_SCREEN_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef enum args_kind {
    ARGS_KIND_FLAG, /* bool * */
    ARGS_KIND_TEXT, /* const char ** */
    ARGS_KIND_INT,  /* int64_t *, within min..max */
    ARGS_KIND_FLOAT /* double *, within min..max */
} args_kind;

typedef struct args_option {
    const char *name;  /* "--out" */
    const char *value; /* name of the value in help, "DIR"; NULL for a flag */
    const char *help;
    args_kind kind;
    void *target;
    double min, max;
} args_option;

/* Rows of a command's table. `target_` is the variable, not its address. */
#define ARGS_FLAG(name_, target_, help_)                                                                     \
    {                                                                                                        \
        .name = name_, .kind = ARGS_KIND_FLAG, .target = &(target_), .help = help_                           \
    }
#define ARGS_TEXT(name_, value_, target_, help_)                                                             \
    {                                                                                                        \
        .name = name_, .value = value_, .kind = ARGS_KIND_TEXT, .target = &(target_), .help = help_          \
    }
#define ARGS_NUMBER(kind_, name_, value_, target_, min_, max_, help_)                                        \
    {                                                                                                        \
        .name = name_, .value = value_, .kind = kind_, .target = &(target_), .min = min_, .max = max_,       \
        .help = help_                                                                                        \
    }
#define ARGS_INT(name_, value_, target_, min_, max_, help_)                                                  \
    ARGS_NUMBER(ARGS_KIND_INT, name_, value_, target_, min_, max_, help_)
#define ARGS_FLOAT(name_, value_, target_, min_, max_, help_)                                                \
    ARGS_NUMBER(ARGS_KIND_FLOAT, name_, value_, target_, min_, max_, help_)
#define ARGS_END                                                                                             \
    {                                                                                                        \
        .name = NULL                                                                                         \
    }

/* Options that most commands have. */
#define ARGS_DEVICE(target_)                                                                                 \
    ARGS_TEXT("--device", "SPEC", target_, "0:0, cpu, gpu or a part of the device's name")
#define ARGS_CAPS(target_)                                                                                   \
    ARGS_TEXT("--caps", "MASK", target_,                                                                     \
              "what the device may use: all, none, a,b or -a,-b, and limits such as local=16K")
#define ARGS_BEST(target_)                                                                                   \
    ARGS_FLAG("--best", target_, "the run's best checkpoint (checkpoint.best) instead of its newest")
#define ARGS_JSON(target_) ARGS_FLAG("--json", target_, "as JSON")

struct cmd_context;
/* A part of a command, such as `prepare` of `cltrain data prepare`. */
typedef struct args_part {
    const char *name, *summary;
    clt_status (*run)(struct cmd_context *context, int argc, char **argv);
} args_part;

/* A command's usage; ARGS_USAGE initialises it. */
typedef struct args_usage {
    const char *command; /* "train" */
    /* "CONFIG [section.key=value ...]" or "". The command takes overrides only if this contains
     * section.key=value. */
    const char *operands;
    int min_operands, max_operands; /* least and most operands, without overrides */
    const args_option *options;     /* ends with a NULL name */
    const char *summary;
    const args_part *parts; /* ends with a NULL name; NULL: the command has none */
} args_usage;
#define ARGS_USAGE(command_, operands_, min_, max_, options_, summary_, ...)                                 \
    {                                                                                                        \
        .command = command_, .operands = operands_, .min_operands = min_, .max_operands = max_,              \
        .options = options_, .summary = summary_, __VA_ARGS__                                                \
    }

/* True if the command takes overrides. */
bool args_takes_overrides(const args_usage *usage);

#define ARGS_MAX 256

typedef struct args_result {
    bool help; /* --help was given and printed: the command returns CLT_OK */
    int n_operands, n_overrides;
    const char *operands[ARGS_MAX];
    const char *overrides[ARGS_MAX];
} args_result;

/* argv[0] is the command's name. Returns CLT_EUSAGE, with a message, for anything that the table forbids. */
clt_status args_parse(const args_usage *usage, int argc, char **argv, args_result *out);
/* Parses the command line; after an error or --help it returns from the calling function. */
#define ARGS_PARSE(usage, argc, argv, out)                                                                   \
    do {                                                                                                     \
        CLT_TRY(args_parse(usage, argc, argv, out));                                                         \
        if ((out)->help)                                                                                     \
            return CLT_OK;                                                                                   \
    } while (0)
/* For a command with parts: runs the part that argv[1] names, with its name as argv[0]; --help lists the
 * parts. CLT_EUSAGE: there is no such part. Uses only the members command, summary and parts of `usage`. */
clt_status args_dispatch(const args_usage *usage, struct cmd_context *context, int argc, char **argv);

/* Sets a receiver: --help then prints nothing and passes the command's table to it instead; the table is
 * valid during the call. The man page and the completion get every command's options in this way. NULL:
 * --help prints again. Applies to the whole process; not thread-safe. */
typedef void (*args_receiver)(void *context, const args_usage *usage);
void args_describe(args_receiver receiver, void *context);

#endif
