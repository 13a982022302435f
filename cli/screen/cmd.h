/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the commands: the table of commands, the state of the process (ranks, stop flag) and helpers for
 * configs, files and output. The command line is the only room that prints and exits. */
#ifndef CLI_SCREEN_CMD_H
#define CLI_SCREEN_CMD_H

#include <stdatomic.h>
#include <stdio.h>

#include "cl/device/device.h"
#include "comm/comm.h"
#include "engine/base/mem.h"
#include "engine/config/config.h"
#include "engine/pretrained/start.h"

struct args_result;

typedef struct cmd_context {
    comm *comm;             /* NULL: one rank */
    const comm_info *ranks; /* NULL: one rank */
    const atomic_int *stop; /* set by SIGTERM, SIGINT, SIGUSR2, SIGHUP */
    const char *program;    /* argv[0] */
    bool keeps_work;        /* the command's work is in files, so it does not fail if its output is lost */
} cmd_context;

typedef clt_status (*cmd_function)(cmd_context *context, int argc, char **argv);

enum {
    /* ends in an orderly way when the stop flag is set; other commands are ended immediately by a signal */
    CMD_STOPS = 1 << 0,
    CMD_RANKS = 1 << 1, /* can run with several ranks */
    CMD_HIDDEN = 1 << 2 /* for cltrain's own child processes */
};

typedef struct cmd_entry {
    const char *name, *summary;
    cmd_function run; /* argv[0] is the command's name */
    unsigned flags;
} cmd_entry;

extern const cmd_entry cmd_table[]; /* ends with a NULL name */
const cmd_entry *cmd_find(const char *name);

#define CMD(name, function, summary, flags) clt_status function(cmd_context *context, int argc, char **argv);
#include "cli/screen/commands.def"
#undef CMD

/* SIGTERM, SIGINT, SIGUSR2 and SIGHUP (signals.c). Install before any other thread is created. */
typedef enum cmd_signals_kind {
    /* a signal ends the process immediately, with a line and exit code 128 plus its number */
    CMD_SIGNALS_END,
    /* the first signal sets the flag; a second SIGINT ends the process immediately with 130 */
    CMD_SIGNALS_STOP,
    CMD_SIGNALS_CHILD /* for a child process of cltrain, which blocks the signals (clt_child_begin) */
} cmd_signals_kind;
void cmd_signals_install(cmd_signals_kind kind);
const atomic_int *cmd_stop_flag(void);
/* Between `starting` and `ready` there is no work to lose, so a signal ends the process immediately, with
 * the exit code of an interruption. After `ready` a signal sets the flag. `ready` does not return if a
 * signal has come since `starting`. */
void cmd_signals_starting(void);
void cmd_signals_ready(void);
/* Another thread calls `tell` (may be NULL) when the first signal has set the flag. */
typedef void (*cmd_stop_fn)(void *context, int number);
void cmd_signals_listen(cmd_stop_fn tell, void *context);

/* True on rank 0, the only one that prints. */
bool cmd_prints(const cmd_context *context);
/* Prints the thread's error to stderr as "cltrain: <status>: <message>", with several ranks after
 * "[rank 3 host] ". */
void cmd_print_error(const cmd_context *context, clt_status status);

/* The environment variable in which `launch` passes the name that it was called by to its ranks. */
#define CMD_CALLED "CLTRAIN_CALLED"
/* Appends the program's name as it was called, for commands that a user can paste. shell_append_word appends
 * the other words. */
void cmd_append_command(clt_str *out, const cmd_context *context);

/* Gets the description of a device by its SPEC (NULL: the default device); opens the device and closes it
 * again. */
clt_status cmd_describe_device(const char *spec, uint32_t caps_mask, ocl_device_desc *out);
/* Parses the value of --caps and sets its limits for this process; NULL: all capabilities, no limit. */
clt_status cmd_caps(const char *text, uint32_t *mask);
/* Finds a folder name that is not used yet: base, base-2, base-3 ...; the caller frees *out. */
clt_status cmd_free_folder(const char *base, char **out);
/* Sets the log level from the config's log.level, unless CLTRAIN_LOG is set. */
void cmd_use_log_level(const clt_config *config);
/* Makes an empty folder in $TMPDIR or /tmp, whose name contains `what`. A signal that ends the process
 * removes it; a command has one at a time. CLT_ESTORAGE. */
clt_status cmd_temporary_folder(const char *what, char **out);
/* Removes the folder with its content, or prints that this failed, and frees the path. NULL: nothing to do.
 * Keeps the thread's error. */
void cmd_remove_temporary(char *path);
/* Removes the command's temporary folder; for the thread that receives signals. */
void cmd_end_temporary(void);
/* For a command without a config: shows log lines of level info, too. */
void cmd_show_info(void);
/* Sets *out to the run folder that a command works on: its only operand, or the value of --checkpoint, which
 * older scripts use. CLT_EUSAGE if neither or both are given; `what` describes the run in the message: "a
 * trained language model". */
clt_status cmd_run_operand(const struct args_result *r, const char *command, const char *checkpoint,
                           const char *what, const char **out);
/* If `best` (--best), sets *run to the folder of the run's best checkpoint, a path in `buffer`. */
clt_status cmd_best_of(bool best, const char **run, char buffer[1024]);
/* Loads the config that is the first operand. `start`: the command line's choice of weights to start from
 * (engine/pretrained/start.h). */
clt_status cmd_load_config(const struct args_result *r, const clt_start *start, clt_config **out);
/* cmd_write_text writes text to a file, or to the standard output for "-". cmd_write_str writes a string in
 * the same way, and returns the error if building the string had failed; cmd_write_line also adds a
 * newline. */
clt_status cmd_write_text(const char *path, const char *text);
clt_status cmd_write_str(const char *path, const clt_str *text);
clt_status cmd_write_line(const char *path, clt_str *text);
/* Checks that `path` can be written, before any long work; NULL: nothing to check. "-" reserves the standard
 * output for that text: from now on everything else is printed to stderr. */
clt_status cmd_can_write(const char *path);

#endif
