/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a command list ready for a device: builds or finds programs, creates one kernel object for each
 * kernel command, resolves tensors, binds every argument and checks every launch once. So running the list
 * (cl/exec/exec.c) only enqueues. */
#include "cl/exec/exec_internal.h"
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/fallback.h"
#include "cl/program/retarget.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

/* Stores in options.refusal which command the driver refused, so that the planner can plan without it. */
static clt_status refused(const ocl_exec *exec, const ocl_command *c, clt_status status)
{
    if (status != CLT_OK && status != CLT_ENOMEM && exec->options.refusal != NULL)
        ocl_refusal_of(c, exec->options.refusal);
    return status;
}

/* Tensors */

static clt_status resolve_with(ocl_resolve_fn find, void *context, const ocl_command *c, int index,
                               ocl_buffer **buffer, uint64_t *offset)
{
    const ocl_arg *arg = &c->args[index];
    *buffer = NULL;
    *offset = 0;
    clt_status status = find(context, arg->ref.tensor, buffer, offset);
    if (status != CLT_OK)
        return clt_fail_prefix(status, "binding argument %d of '%s': ", index, c->label);
    if (*buffer == NULL)
        CLT_FAIL(CLT_EINTERNAL, "binding argument %d of '%s': tensor %d has no memory", index, c->label,
                 arg->ref.tensor);
    *offset += arg->ref.offset;
    if (*offset > (*buffer)->bytes || arg->bytes > (*buffer)->bytes - *offset)
        CLT_FAIL(
            CLT_EINTERNAL,
            "binding argument %d of '%s': tensor %d, bytes %llu to %llu, lies outside '%s' of %llu bytes",
            index, c->label, arg->ref.tensor, (unsigned long long)*offset,
            (unsigned long long)(*offset + arg->bytes), (*buffer)->what,
            (unsigned long long)(*buffer)->bytes);
    return CLT_OK;
}

static clt_status resolve(const ocl_exec *exec, const ocl_command *c, int index, ocl_buffer **buffer,
                          uint64_t *offset)
{
    return resolve_with(exec->options.resolve, exec->options.resolve_context, c, index, buffer, offset);
}

/* Programs */

/* The programs of one or several lists, and for each program its commands with distinct machine code. */
typedef struct program_list {
    ocl_program_request *requests;
    const ocl_command **commands; /* the commands of all requests, in order */
    size_t count;
    ocl_exec_ahead from[1 + OCL_AHEAD_MAX]; /* the lists; all but the first may be NULL */
} program_list;

static void program_list_end_scope(program_list *list)
{
    free(list->requests);
    free(list->commands);
}

/* The request for this command's program; NULL: there is none yet. */
static ocl_program_request *request_of(const program_list *list, const ocl_command *c)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->requests[i].family, c->family) == 0 &&
            strcmp(list->requests[i].options, c->options) == 0)
            return &list->requests[i];
    return NULL;
}

/* Implements ocl_extent_fn: bytes from an argument's start to the end of its buffer; 0: the argument has no
 * buffer. */
static uint64_t extent(void *context, const ocl_command *c, int index)
{
    const ocl_exec_ahead *from = context;
    ocl_buffer *buffer;
    uint64_t offset;
    if (resolve_with(from->resolve, from->resolve_context, c, index, &buffer, &offset) == CLT_OK)
        return buffer->bytes - offset;
    clt_error_clear(); /* binding the arguments reports the same failure */
    return 0;
}

/* Adds the list's kernel commands with distinct machine code, in order. Training repeats a few dozen of
 * them. */
static size_t add_distinct(const ocl_command_list *list, const ocl_command **out, size_t count)
{
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const ocl_command *c = &list->commands[i];
        size_t same = 0;
        while (same < count && !ocl_same_code(out[same], c))
            same++;
        if (c->kind == OCL_CMD_KERNEL && same == count)
            out[count++] = c;
    }
    return count;
}

/* Adds the programs of the commands [first, last) of `distinct`, which belong to one list, and each new
 * program's commands. If a later list uses a program of an earlier one, no child launches the later list's
 * commands, because they use other buffers. */
static void add_programs(program_list *out, const ocl_command *const *distinct, size_t first, size_t last,
                         int list, size_t *used)
{
    size_t before = out->count;
    for (size_t i = first; i < last; i++)
        if (request_of(out, distinct[i]) == NULL)
            out->requests[out->count++] = (ocl_program_request){.family = distinct[i]->family,
                                                                .options = distinct[i]->options,
                                                                .extent = extent,
                                                                .extent_context = &out->from[list],
                                                                .ahead = list > 0};
    for (size_t w = before; w < out->count; w++) {
        out->requests[w].launches = &out->commands[*used];
        for (size_t i = first; i < last; i++)
            if (request_of(out, distinct[i]) == &out->requests[w]) {
                out->commands[(*used)++] = distinct[i];
                out->requests[w].n_launches++;
            }
    }
}

static clt_status find_programs(program_list *out)
{
    enum { LISTS = sizeof out->from / sizeof out->from[0] };
    CLT_FREED const ocl_command **distinct = NULL;
    size_t all = 0, last[LISTS], count = 0, used = 0;
    for (int i = 0; i < LISTS; i++)
        all += out->from[i].list != NULL ? out->from[i].list->count : 0;
    CLT_TRY(clt_alloc(&distinct, all, sizeof *distinct, "the list of kernels"));
    for (int i = 0; i < LISTS; i++)
        last[i] = count = add_distinct(out->from[i].list, distinct, count);
    CLT_TRY(clt_alloc(&out->requests, count, sizeof *out->requests, "the list of programs"));
    CLT_TRY(clt_alloc(&out->commands, count, sizeof *out->commands, "the list of programs"));
    for (int i = 0; i < LISTS; i++)
        add_programs(out, distinct, i > 0 ? last[i - 1] : 0, last[i], i, &used);
    return CLT_OK;
}

static clt_status build_programs(ocl_exec *exec)
{
    CLT_SCOPED(program_list)
    list = {.from = {{exec->list, exec->options.resolve, exec->options.resolve_context}}};
    memcpy(list.from + 1, exec->options.ahead, sizeof exec->options.ahead);
    /* these lists may be freed while this executor still exists */
    memset(exec->options.ahead, 0, sizeof exec->options.ahead);
    size_t failed = 0;
    CLT_TRY(find_programs(&list));
    clt_status status = ocl_programs_build(exec->device, list.requests, list.count, exec->options.progress,
                                           exec->options.progress_context, &failed);
    if (status != CLT_OK) {
        const ocl_command *first = list.requests[failed].launches[0];
        clt_fail_prefix(refused(exec, first, status), "preparing '%s': ", first->label);
    }
    return status;
}

/* Kernels */

static clt_status set_arg(cl_kernel kernel, cl_uint *next, size_t size, const void *value,
                          const ocl_command *c)
{
    OCL_CHECK(clSetKernelArg(kernel, *next, size, value), "binding kernel argument %u of %s for '%s'", *next,
              c->kernel, c->label);
    ++*next;
    return CLT_OK;
}

static clt_status bind_tensor(const ocl_exec *exec, cl_kernel kernel, const ocl_command *c, int index,
                              cl_uint *next)
{
    const ocl_arg *arg = &c->args[index];
    cl_mem mem = NULL;
    cl_ulong elements = 0;
    if (arg->ref.tensor != OCL_NO_TENSOR_ID) {
        ocl_buffer *buffer;
        uint64_t offset;
        CLT_TRY(resolve(exec, c, index, &buffer, &offset));
        if (offset % arg->element_bytes != 0)
            CLT_FAIL(CLT_EINTERNAL, "binding argument %d of '%s': byte offset %llu is not a multiple of %u",
                     index, c->label, (unsigned long long)offset, arg->element_bytes);
        mem = buffer->mem;
        elements = offset / arg->element_bytes;
    }
    /* no tensor: a null pointer, which the kernel never dereferences */
    CLT_TRY(set_arg(kernel, next, sizeof mem, &mem, c));
    return set_arg(kernel, next, sizeof elements, &elements, c);
}

/* Binds the tile counters. One pair is enough for a device: the compute queue runs one command at a time,
 * and every kernel resets the counters. */
static clt_status bind_tile_counter(const ocl_exec *exec, cl_kernel kernel, const ocl_command *c,
                                    cl_uint *next)
{
    ocl_device *device = exec->device;
    cl_uint zeros[16] = {0}; /* one cache line */
    cl_int code = CL_SUCCESS;
    pthread_mutex_lock(&device->lock);
    if (device->tile_counter == NULL)
        device->tile_counter = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                              sizeof zeros, zeros, &code);
    cl_mem tile_counter = device->tile_counter;
    pthread_mutex_unlock(&device->lock);
    OCL_CHECK(code, "allocating the counters of '%s'", c->label);
    return set_arg(kernel, next, sizeof tile_counter, &tile_counter, c);
}

static clt_status bind_args(const ocl_exec *exec, cl_kernel kernel, const ocl_command *c)
{
    cl_uint next = 0, want = 0;
    OCL_CHECK(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof want, &want, NULL),
              "asking %s for its arguments", c->kernel);
    cl_uint given = (cl_uint)c->n_args;
    for (int i = 0; i < c->n_args; i++)
        given += c->args[i].kind == OCL_ARG_TENSOR;
    if (given != want)
        CLT_FAIL(CLT_EINTERNAL,
                 "binding kernel %s (%s.cl, %s) for '%s': it has %u parameters and %u were emitted (a tensor "
                 "counts as two)",
                 c->kernel, c->family, c->options, c->label, want, given);
    for (int i = 0; i < c->n_args; i++) {
        const ocl_arg *arg = &c->args[i];
        cl_int i32 = arg->value.i32;
        cl_uint u32 = arg->value.u32;
        cl_ulong u64 = arg->value.u64;
        cl_float f32 = arg->value.f32;
        switch (arg->kind) {
        case OCL_ARG_TENSOR:
            CLT_TRY(bind_tensor(exec, kernel, c, i, &next));
            break;
        case OCL_ARG_I32:
            CLT_TRY(set_arg(kernel, &next, sizeof i32, &i32, c));
            break;
        case OCL_ARG_U32:
            CLT_TRY(set_arg(kernel, &next, sizeof u32, &u32, c));
            break;
        case OCL_ARG_U64:
            CLT_TRY(set_arg(kernel, &next, sizeof u64, &u64, c));
            break;
        case OCL_ARG_F32:
            CLT_TRY(set_arg(kernel, &next, sizeof f32, &f32, c));
            break;
        case OCL_ARG_LOCAL:
            CLT_TRY(set_arg(kernel, &next, (size_t)u64, NULL, c));
            break;
        case OCL_ARG_TILE_COUNTER:
            CLT_TRY(bind_tile_counter(exec, kernel, c, &next));
            break;
        }
    }
    return CLT_OK;
}

/* Checks that the device has enough local memory for the kernel's own arrays and its local arguments, which
 * are bound later. */
static clt_status check_local(const ocl_exec *exec, cl_kernel kernel, const ocl_command *c)
{
    const ocl_device_desc *desc = &exec->device->desc;
    uint64_t bytes, arguments = 0;
    uint64_t room = ocl_desc_max_local(desc, strstr(c->options, OCL_RETARGET_OPTION) != NULL);
    OCL_CHECK(ocl_kernel_local_bytes(exec->device, kernel, &bytes), "asking for the local memory of %s",
              c->kernel);
    for (int i = 0; i < c->n_args; i++)
        if (c->args[i].kind == OCL_ARG_LOCAL)
            arguments += c->args[i].value.u64;
    if (arguments > 0) /* local arguments have a separate limit */
        room =
            desc->local_argument_bytes > desc->local_bytes ? desc->local_argument_bytes : desc->local_bytes;
    bytes += arguments;
    if (bytes > room)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "preparing kernel %s (%s.cl, %s) for '%s': it needs %llu bytes of local memory, and device "
                 "%s '%s' has %llu; choose another variant",
                 c->kernel, c->family, c->options, c->label, (unsigned long long)bytes, desc->spec,
                 desc->name, (unsigned long long)room);
    return CLT_OK;
}

/* Checks the launch against the device's limits for this kernel, so that it cannot fail in the middle of a
 * step. `local` gets the group size: the command's own size or, if `free_local` allows it, a smaller one. */
static clt_status check_launch(const ocl_exec *exec, cl_kernel kernel, const ocl_command *c, size_t local[3],
                               size_t *allowed)
{
    const ocl_device_desc *desc = &exec->device->desc;
    size_t limit = 0, items = 1;
    *allowed = 0;
    OCL_CHECK(ocl_kernel_limit(exec->device, kernel, &limit), "asking for the work-group limit of %s",
              c->kernel);
    memcpy(local, c->local, sizeof c->local);
    while (c->free_local && (local[0] > limit || local[0] > desc->max_work_item[0]) && local[0] % 2 == 0)
        local[0] /= 2;
    for (cl_uint i = 0; i < c->work_dim; i++) {
        items *= local[i];
        if (c->global[i] % local[i] != 0)
            CLT_FAIL(CLT_EINTERNAL,
                     "preparing kernel %s (%s.cl, %s) for '%s': dimension %u has %zu work-items, which is "
                     "not a multiple of the group size %zu",
                     c->kernel, c->family, c->options, c->label, i, c->global[i], local[i]);
        if (local[i] > desc->max_work_item[i])
            CLT_FAIL(CLT_EUNSUPPORTED,
                     "preparing kernel %s (%s.cl, %s) for '%s': dimension %u has %zu work-items in groups of "
                     "%zu, and device %s '%s' allows %llu a group; choose another variant",
                     c->kernel, c->family, c->options, c->label, i, c->global[i], local[i], desc->spec,
                     desc->name, (unsigned long long)desc->max_work_item[i]);
    }
    if (items <= limit)
        return CLT_OK;
    *allowed = limit;
    CLT_FAIL(CLT_EUNSUPPORTED,
             "preparing kernel %s (%s.cl, %s) for '%s': it asks for groups of %zu work-items, and device "
             "%s '%s' runs it with at most %zu; choose another variant",
             c->kernel, c->family, c->options, c->label, items, desc->spec, desc->name, limit);
}

static void count_kernel(ocl_device *device)
{
    CLT_LOCKED(&device->lock);
    device->counters.kernels_created++;
}

static clt_status create_kernel(ocl_exec *exec, const char *family, const char *options, const char *name,
                                const char *label, cl_kernel *out)
{
    ocl_program *program;
    cl_int code;
    CLT_TRY(ocl_program_get(exec->device, family, options, &program));
    *out = clCreateKernel(program->program, name, &code);
    OCL_CHECK(code, "creating kernel %s of %s.cl (options: %s) for '%s'", name, family, options, label);
    count_kernel(exec->device);
    return CLT_OK;
}

static clt_status realise_kernel(ocl_exec *exec, const ocl_command *c, exec_entry *entry)
{
    CLT_TRY(
        refused(exec, c, create_kernel(exec, c->family, c->options, c->kernel, c->label, &entry->kernel)));
    CLT_TRY(refused(exec, c, check_local(exec, entry->kernel, c)));
    CLT_TRY(bind_args(exec, entry->kernel, c));
    size_t allowed;
    clt_status status = refused(exec, c, check_launch(exec, entry->kernel, c, entry->local, &allowed));
    if (status != CLT_OK && exec->options.refusal != NULL)
        exec->options.refusal->group_limit = (uint32_t)allowed;
    return status;
}

/* The other kinds */

static clt_status realise_fill(ocl_exec *exec, const ocl_command *c, exec_entry *entry)
{
    ocl_buffer *buffer;
    uint64_t offset;
    CLT_TRY(resolve(exec, c, 0, &buffer, &offset));
    bool words = offset % 4 == 0 && c->args[0].bytes % 4 == 0;
    entry->target = buffer->mem;
    entry->target_offset = (size_t)offset;
    entry->bytes = (size_t)c->args[0].bytes;
    entry->pattern = c->args[0].value.u32;
    entry->pattern_bytes = words ? 4 : 1;
    if (!words && entry->pattern != (entry->pattern & 0xffu) * 0x01010101u)
        CLT_FAIL(CLT_EINTERNAL,
                 "preparing a fill of '%s': %zu bytes at %llu are not whole words, and the pattern is not "
                 "one byte repeated",
                 c->label, entry->bytes, (unsigned long long)offset);
    if (!(exec->device->desc.quirks & OCL_QUIRK_FILL_BY_KERNEL))
        return CLT_OK;
    cl_ulong first = offset / entry->pattern_bytes, count = entry->bytes / entry->pattern_bytes;
    cl_uint next = 0;
    CLT_TRY(create_kernel(exec, "fill", "", words ? "fill_u32" : "fill_u8", c->label, &entry->kernel));
    CLT_TRY(set_arg(entry->kernel, &next, sizeof entry->target, &entry->target, c));
    CLT_TRY(set_arg(entry->kernel, &next, sizeof first, &first, c));
    CLT_TRY(set_arg(entry->kernel, &next, sizeof count, &count, c));
    CLT_TRY(set_arg(entry->kernel, &next, sizeof entry->pattern, &entry->pattern, c));
    entry->fill_items = ocl_fill_items(count);
    entry->local[0] = ocl_kernel_items(exec->device, entry->kernel, 64);
    return CLT_OK;
}

static clt_status realise_copy(ocl_exec *exec, const ocl_command *c, exec_entry *entry)
{
    ocl_buffer *target, *source;
    uint64_t to, from, bytes = c->args[0].bytes;
    CLT_TRY(resolve(exec, c, 0, &target, &to));
    CLT_TRY(resolve(exec, c, 1, &source, &from));
    if (target == source && to < from + bytes && from < to + bytes)
        CLT_FAIL(CLT_EINTERNAL, "preparing a copy of '%s': source and destination overlap in '%s'", c->label,
                 target->what);
    entry->target = target->mem;
    entry->target_offset = (size_t)to;
    entry->source = source->mem;
    entry->source_offset = (size_t)from;
    entry->bytes = (size_t)bytes;
    return CLT_OK;
}

static clt_status realise_gemm(ocl_exec *exec, const ocl_command *c, exec_entry *entry)
{
    static const int args[3] = {1, 2, 0}; /* indices of a, b and c among the command's arguments */
    ocl_buffer *operand[3];
    uint64_t offset[3];
    if (c->library == NULL)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "preparing '%s': it calls a GEMM library and this build has none; choose another backend",
                 c->label);
    for (int i = 0; i < 3; i++)
        CLT_TRY(resolve(exec, c, args[i], &operand[i], &offset[i]));
    CLT_TRY(c->library->prepare(exec->device, c->gemm, operand, offset, &entry->call));
    entry->library = c->library;
    return CLT_OK;
}

static clt_status realise(ocl_exec *exec, size_t index)
{
    const ocl_command *c = &exec->list->commands[index];
    exec_entry *entry = &exec->entries[index];
    switch (c->kind) {
    case OCL_CMD_KERNEL:
        return realise_kernel(exec, c, entry);
    case OCL_CMD_GEMM:
        return realise_gemm(exec, c, entry);
    case OCL_CMD_COPY:
        return realise_copy(exec, c, entry);
    case OCL_CMD_FILL:
        return realise_fill(exec, c, entry);
    case OCL_CMD_HOST:
        if (exec->options.host == NULL)
            CLT_FAIL(CLT_EINTERNAL, "preparing host command %d of '%s': the executor has no host function",
                     c->host_code, c->label);
        return CLT_OK;
    }
    return CLT_OK;
}

clt_status ocl_exec_create(ocl_device *device, const ocl_command_list *list, const ocl_exec_options *options,
                           ocl_exec **out)
{
    CLT_SCOPED(ocl_exec) *exec = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&exec, 1, sizeof *exec, "an executor"));
    exec->device = device;
    exec->queue = device->queue[OCL_QUEUE_COMPUTE];
    exec->list = list;
    exec->options = *options;
    CLT_TRY(clt_alloc(&exec->entries, list->count, sizeof *exec->entries, "an executor's commands"));
    CLT_TRY(ocl_exec_tell(exec, NULL, 0, list->count, 0));
    CLT_TRY(build_programs(exec));
    for (size_t i = 0; i < list->count; i++)
        CLT_TRY(realise(exec, i));
    *out = CLT_TAKE(exec);
    return CLT_OK;
}

void ocl_exec_destroy(ocl_exec *exec)
{
    if (exec == NULL)
        return;
    for (size_t i = 0; exec->entries != NULL && i < exec->list->count; i++) {
        if (exec->entries[i].kernel != NULL)
            clReleaseKernel(exec->entries[i].kernel);
        if (exec->entries[i].library != NULL)
            exec->entries[i].library->release(exec->entries[i].call);
    }
    free(exec->entries);
    free(exec);
}
