/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies commands, their buffers and wrong values. Knows no case. */
#include "engine/verify/reduce/capture.h"

#include <stdio.h>
#include <string.h>

#include "cl/program/retarget.h"

void clt_capture_free(clt_capture *capture)
{
    clt_arena_destroy(capture->arena);
    *capture = (clt_capture){0};
}

static void *take(clt_capture *c, size_t bytes)
{
    return clt_arena_alloc(c->arena, bytes + 1);
}

/* --- commands --- */

static clt_status find_buffer(clt_capture *c, const ocl_buffer *buffer, int *out)
{
    for (*out = 0; *out < c->n_buffers; ++*out)
        if (c->buffers[*out].buffer == buffer)
            return CLT_OK;
    clt_captured_buffer *more = take(c, ((size_t)c->n_buffers + 1) * sizeof *more);
    if (!more)
        return CLT_ENOMEM;
    for (int i = 0; i < c->n_buffers; i++)
        more[i] = c->buffers[i];
    more[c->n_buffers++] = (clt_captured_buffer){.buffer = buffer, .bytes = ocl_buffer_bytes(buffer)};
    c->buffers = more;
    return CLT_OK;
}

static clt_status copy_text(clt_capture *c, const char **text)
{
    *text = clt_arena_strdup(c->arena, *text ? *text : "");
    return *text ? CLT_OK : CLT_ENOMEM;
}

static clt_status copy_command(clt_capture *c, const ocl_exec_event *event, size_t index)
{
    clt_captured_command *copy = &c->commands[c->n_commands++];
    ocl_command *command = &copy->command;
    *command = event->list->commands[index];
    command->layer = "";
    command->form = NULL;
    command->made_by = NULL;
    CLT_TRY(copy_text(c, &command->label));
    CLT_TRY(copy_text(c, &command->variant));
    CLT_TRY(copy_text(c, &command->family));
    CLT_TRY(copy_text(c, &command->kernel));
    CLT_TRY(copy_text(c, &command->options));
    memcpy(copy->local,
           event->exec && command->kind == OCL_CMD_KERNEL ? ocl_exec_local(event->exec, index)
                                                          : command->local,
           sizeof copy->local);
    for (int i = 0; i < command->n_args; i++) {
        ocl_buffer *buffer = NULL;
        copy->buffer[i] = -1;
        if (command->args[i].kind != OCL_ARG_TENSOR || command->args[i].ref.tensor == OCL_NO_TENSOR_ID)
            continue;
        CLT_TRY(event->resolve(event->resolve_context, command->args[i].ref.tensor, &buffer, &copy->at[i]));
        copy->at[i] += command->args[i].ref.offset;
        if (buffer)
            CLT_TRY(find_buffer(c, buffer, &copy->buffer[i]));
    }
    return CLT_OK;
}

static clt_status read_buffers(clt_capture *c)
{
    uint64_t all = 0;
    for (int i = 0; i < c->n_buffers; i++)
        all += c->buffers[i].bytes;
    if (all > CLT_CAPTURE_BYTES)
        CLT_FAIL(CLT_EUNSUPPORTED, "its buffers have %llu bytes; at most %llu are written to a folder",
                 (unsigned long long)all, (unsigned long long)CLT_CAPTURE_BYTES);
    for (int i = 0; i < c->n_buffers; i++) {
        clt_captured_buffer *b = &c->buffers[i];
        b->before = take(c, clt_align_up(b->bytes, 4));
        if (!b->before)
            return CLT_ENOMEM;
        /* the buffer is only read; ocl_read has no const because it uses the buffer's queue */
        CLT_TRY(ocl_read((ocl_buffer *)(uintptr_t)b->buffer, 0, b->before, b->bytes));
    }
    return CLT_OK;
}

static clt_status copy_event(clt_capture *c, const ocl_exec_event *event)
{
    CLT_TRY(clt_arena_create(&c->arena));
    c->commands = take(c, (event->last - event->first) * sizeof *c->commands);
    if (!c->commands)
        return CLT_ENOMEM;
    for (size_t i = event->first; i < event->last; i++)
        if (!(event->list->commands[i].derives & event->without))
            CLT_TRY(copy_command(c, event, i));
    c->built = event->exec != NULL;
    return c->built ? read_buffers(c) : CLT_OK;
}

void clt_capture_event(clt_capture *capture, const ocl_exec_event *event)
{
    clt_capture_free(capture);
    capture->wrong.buffer = -1;
    capture->trouble = copy_event(capture, event);
    clt_error_take(capture->trouble, &capture->error);
}

/* --- wrong values --- */

/* Finds the buffer that the commands bind to a tensor, and the tensor's start in it. */
static int bound_to(const clt_capture *c, int32_t tensor, uint64_t *at)
{
    for (size_t i = 0; i < c->n_commands; i++)
        for (int a = 0; a < c->commands[i].command.n_args; a++)
            if (c->commands[i].buffer[a] >= 0 && c->commands[i].command.args[a].ref.tensor == tensor) {
                *at = c->commands[i].at[a] - c->commands[i].command.args[a].ref.offset;
                return c->commands[i].buffer[a];
            }
    return -1;
}

static bool copy_values(clt_capture *c, const clt_verify_wrong *wrong, uint64_t first)
{
    clt_captured_values *v = &c->wrong;
    const clt_verify_source *source = &wrong->source;
    uint64_t unit = clt_dtype_bytes(v->dtype);
    v->element = take(c, v->n * sizeof *v->element);
    v->want = take(c, v->n * sizeof *v->want);
    v->bound = take(c, v->n * sizeof *v->bound);
    v->storage = take(c, v->n * sizeof *v->storage);
    if (!v->element || !v->want || !v->bound || !v->storage)
        return false;
    for (size_t i = 0; i < v->n; i++)
        v->element[i] = first + (source->index ? source->index(source->context, i) : i);
    for (size_t i = 0; i < v->n; i++)
        if ((v->element[i] + 1) * unit > c->buffers[v->buffer].bytes)
            return false;
    memcpy(v->want, wrong->want, v->n * sizeof *v->want);
    memcpy(v->bound, wrong->bound, v->n * sizeof *v->bound);
    memcpy(v->storage, wrong->storage, v->n * sizeof *v->storage);
    return true;
}

void clt_capture_wrong(clt_capture *c, const clt_verify_wrong *wrong)
{
    clt_captured_values *v = &c->wrong;
    uint64_t start = 0;
    if (c->trouble != CLT_OK || !c->built)
        return;
    int buffer = wrong->source.buffer ? 0 : bound_to(c, wrong->source.tensor, &start);
    if (wrong->source.buffer)
        while (buffer < c->n_buffers && c->buffers[buffer].buffer != wrong->source.buffer)
            buffer++;
    if (buffer < 0 || buffer >= c->n_buffers)
        return; /* no command of the last run uses this buffer */
    *v = (clt_captured_values){.buffer = buffer,
                               .dtype = wrong->source.dtype,
                               .n = wrong->n,
                               .at = wrong->at,
                               .got = wrong->got[wrong->at],
                               .together = wrong->together,
                               .mean_limit = wrong->mean_limit,
                               .left = wrong->left};
    snprintf(v->what, sizeof v->what, "%s", wrong->what);
    uint64_t byte = start + wrong->source.offset;
    if (byte % clt_dtype_bytes(v->dtype) != 0 || !copy_values(c, wrong, byte / clt_dtype_bytes(v->dtype)))
        v->buffer = -1;
}

/* --- the commands that are needed --- */

typedef struct span {
    int buffer;
    uint64_t first, last;
} span;

/* The bytes that an argument accesses; if their number is unknown, all from its start to the buffer's
 * end. */
static span span_of(const clt_capture *c, const clt_captured_command *command, int arg)
{
    int buffer = command->buffer[arg];
    uint64_t at = command->at[arg], bytes = command->command.args[arg].bytes;
    uint64_t end = buffer >= 0 ? c->buffers[buffer].bytes : 0;
    return (span){buffer, at, bytes > 0 && at + bytes < end ? at + bytes : end};
}

static bool overlaps(const span *a, const span *b)
{
    return a->buffer >= 0 && a->buffer == b->buffer && a->first < b->last && b->first < a->last;
}

static bool makes(const clt_capture *c, const clt_captured_command *command, const span *needed, size_t n)
{
    for (int a = 0; a < command->command.n_args; a++) {
        span own = span_of(c, command, a);
        if (command->buffer[a] < 0 || !(command->command.args[a].access & OCL_WRITE))
            continue;
        for (size_t i = 0; i < n; i++)
            if (overlaps(&own, &needed[i]))
                return true;
    }
    return false;
}

static clt_status mark(clt_capture *c)
{
    span *needed = take(c, (c->n_commands * OCL_MAX_ARGS + 1) * sizeof *needed);
    const clt_captured_values *v = &c->wrong;
    uint64_t unit = clt_dtype_bytes(v->dtype);
    size_t n = 1;
    if (!needed)
        return CLT_ENOMEM;
    needed[0] = (span){v->buffer, UINT64_MAX, 0};
    for (size_t i = 0; i < v->n; i++) {
        uint64_t at = v->element[i] * unit;
        needed[0].first = at < needed[0].first ? at : needed[0].first;
        needed[0].last = at + unit > needed[0].last ? at + unit : needed[0].last;
    }
    for (size_t i = c->n_commands; i-- > 0;) {
        clt_captured_command *command = &c->commands[i];
        command->kept = makes(c, command, needed, n);
        for (int a = 0; a < command->command.n_args && command->kept; a++)
            if (command->buffer[a] >= 0 && (command->command.args[a].access & OCL_READ))
                needed[n++] = span_of(c, command, a);
    }
    return CLT_OK;
}

clt_status clt_capture_slice(clt_capture *c)
{
    bool some = false;
    if (c->trouble != CLT_OK)
        return clt_error_put(&c->error);
    /* a single wrong value may be outside of what commands write, so all commands are kept for it */
    if (c->wrong.buffer >= 0 && c->wrong.together)
        CLT_TRY(mark(c));
    for (size_t i = 0; i < c->n_commands; i++)
        some |= c->commands[i].kept;
    for (size_t i = 0; i < c->n_commands; i++) {
        clt_captured_command *command = &c->commands[i];
        command->kept |= !some;
        if (command->kept && command->command.kind == OCL_CMD_GEMM)
            CLT_FAIL(CLT_EUNSUPPORTED, "CLBlast computes '%s': a program with only OpenCL cannot repeat that",
                     command->command.label);
        if (command->kept && command->command.options &&
            strstr(command->command.options, OCL_RETARGET_OPTION) != NULL)
            CLT_FAIL(CLT_EUNSUPPORTED, "'%s' needs PTX that cltrain changes after the driver's compiler",
                     command->command.label);
        if (command->kept && command->command.kind == OCL_CMD_HOST)
            CLT_FAIL(CLT_EUNSUPPORTED, "'%s' exchanges data with other ranks in the middle of its commands",
                     command->command.label);
    }
    return CLT_OK;
}
