/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands and the helpers they share. */
#include "cli/screen/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/screen/args.h"
#include "cli/screen/shell_word.h"
#include "cli/screen/terminal.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/files/fileio.h"

const cmd_entry cmd_table[] = {
#define CMD(name, function, summary, flags) {name, summary, function, flags},
#include "cli/screen/commands.def"
#undef CMD
    {NULL, NULL, NULL, 0}};

const cmd_entry *cmd_find(const char *name)
{
    for (const cmd_entry *entry = cmd_table; entry->name; entry++)
        if (strcmp(entry->name, name) == 0)
            return entry;
    return NULL;
}

bool cmd_prints(const cmd_context *context)
{
    return !context->ranks || context->ranks->rank == 0;
}

void cmd_append_command(clt_str *out, const cmd_context *context)
{
    const char *called = getenv(CMD_CALLED), *program = called && *called ? called : context->program;
    shell_append_word(out, program && *program ? program : "cltrain");
}

void cmd_print_error(const cmd_context *context, clt_status status)
{
    char who[96] = "", label[160], text[CLT_ERROR_TEXT_SIZE];
    snprintf(text, sizeof text, "%s", clt_error_text());
    clt_text_sanitise(text);
    if (context->ranks && context->ranks->ranks > 1)
        snprintf(who, sizeof who, "[rank %d %s] ", context->ranks->rank, context->ranks->host);
    fflush(stdout);
    terminal_ink ink = status == CLT_EINTERRUPTED ? INK_WARNING : INK_BAD;
    snprintf(label, sizeof label, "cltrain: %s%s", clt_status_text(status), *text ? ":" : "");
    terminal_tell(who, ink, label, text);
    const char *origin = clt_error_origin();
    if (getenv("CLTRAIN_DEBUG") && origin && *origin)
        fprintf(stderr, "%sraised at %s\n", who, origin);
    fflush(stderr);
}

clt_status cmd_describe_device(const char *spec, uint32_t caps_mask, ocl_device_desc *out)
{
    ocl_open_options options = {.spec = spec, .caps_mask = caps_mask};
    ocl_device *device = NULL;
    CLT_TRY(ocl_device_open(&options, &device));
    *out = *ocl_device_describe(device);
    ocl_device_close(device);
    return CLT_OK;
}

clt_status cmd_caps(const char *text, uint32_t *mask)
{
    ocl_size_limits limits = {0};
    *mask = OCL_CAPS_ALL;
    if (text != NULL)
        CLT_TRY(ocl_caps_parse_limits(text, mask, &limits));
    return ocl_size_limits_use(&limits);
}

clt_status cmd_free_folder(const char *base, char **out)
{
    CLT_SCOPED(clt_str) path = {0};
    for (int i = 1; i < 100000; i++) {
        path.length = 0;
        clt_str_printf(&path, "%s", base);
        if (i > 1)
            clt_str_printf(&path, "-%d", i);
        CLT_TRY(clt_str_check(&path));
        if (!clt_file_exists(path.text) && !clt_is_directory(path.text)) {
            *out = CLT_TAKE(path.text);
            return CLT_OK;
        }
    }
    CLT_FAIL(CLT_ESTORAGE,
             "choosing a run folder: %s and the numbered names after it are all taken; name one with --out",
             base);
}

/* The temporary folder, which is removed when a signal ends the process. */
static struct {
    const char *path; /* NULL: none */
    pthread_mutex_t lock;
} temporary = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void set_temporary(const char *path)
{
    pthread_mutex_lock(&temporary.lock);
    temporary.path = path;
    pthread_mutex_unlock(&temporary.lock);
}

clt_status cmd_temporary_folder(const char *what, char **out)
{
    CLT_SCOPED(clt_str) path = {0};
    const char *base = getenv("TMPDIR");
    base = base && *base ? base : "/tmp";
    clt_str_printf(&path, "%s/cltrain-%s-XXXXXX", base, what);
    CLT_TRY(clt_str_check(&path));
    if (!mkdtemp(path.text))
        CLT_FAIL(CLT_ESTORAGE, "making a temporary folder in '%s': %s; TMPDIR names another place", base,
                 strerror(errno));
    *out = CLT_TAKE(path.text);
    set_temporary(*out);
    return CLT_OK;
}

void cmd_remove_temporary(char *path)
{
    CLT_KEEP_ERROR();
    if (!path)
        return;
    set_temporary(NULL);
    if (clt_remove_tree(path) != CLT_OK)
        terminal_say("%s could not be removed\n", path);
    free(path);
}

void cmd_end_temporary(void)
{
    pthread_mutex_lock(&temporary.lock);
    if (temporary.path && clt_remove_tree(temporary.path) != CLT_OK)
        clt_error_clear(); /* the process is about to end */
    pthread_mutex_unlock(&temporary.lock);
}

void cmd_show_info(void)
{
    if (!getenv("CLTRAIN_LOG"))
        clt_log_set_level(CLT_LOG_INFO);
}

void cmd_use_log_level(const clt_config *config)
{
    clt_log_level level;
    if (!getenv("CLTRAIN_LOG") && clt_log_level_from_name(clt_config_string(config, "log.level"), &level))
        clt_log_set_level(level);
}

clt_status cmd_load_config(const args_result *r, const clt_start *start, clt_config **out)
{
    CLT_TRY(clt_start_load(r->operands[0], r->overrides, r->n_overrides, start, out));
    cmd_use_log_level(*out);
    return CLT_OK;
}

clt_status cmd_run_operand(const args_result *r, const char *command, const char *checkpoint,
                           const char *what, const char **out)
{
    *out = checkpoint ? checkpoint : r->n_operands > 0 ? r->operands[0] : NULL;
    if (!*out)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain %s: missing argument: name the run folder of %s (cltrain %s RUN); its checkpoints "
                 "folder or one step_N of it is accepted as well",
                 command, what, command);
    if (checkpoint && r->n_operands > 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain %s: both '%s' and --checkpoint name a run; give one of them", command,
                 r->operands[0]);
    return CLT_OK;
}

static int data_output = -1; /* copy of the real standard output while stdout goes to stderr; else -1 */

static clt_status reserve_output(void)
{
    if (data_output >= 0)
        return CLT_OK;
    fflush(stdout);
    data_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (data_output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        CLT_FAIL(CLT_ESTORAGE, "writing to the standard output: %s", strerror(errno));
    return CLT_OK;
}

clt_status cmd_write_text(const char *path, const char *text)
{
    if (strcmp(path, "-") != 0)
        return clt_file_write(path, text, strlen(text));
    if (data_output >= 0)
        return clt_fd_write(data_output, text, strlen(text), "the standard output");
    if (fputs(text, stdout) == EOF || fflush(stdout) == EOF)
        CLT_FAIL(CLT_ESTORAGE, "writing to the standard output: %s", strerror(errno));
    return CLT_OK;
}

clt_status cmd_write_str(const char *path, const clt_str *text)
{
    CLT_TRY(clt_str_check(text));
    return cmd_write_text(path, text->text ? text->text : "");
}

clt_status cmd_write_line(const char *path, clt_str *text)
{
    clt_str_append(text, "\n");
    return cmd_write_str(path, text);
}

clt_status cmd_best_of(bool best, const char **run, char buffer[1024])
{
    if (!best || !*run)
        return CLT_OK;
    CLT_TRY(clt_checkpoint_best(*run, buffer, 1024));
    *run = buffer;
    return CLT_OK;
}

clt_status cmd_can_write(const char *path)
{
    if (!path)
        return CLT_OK;
    return strcmp(path, "-") == 0 ? reserve_output() : clt_file_can_write(path);
}
