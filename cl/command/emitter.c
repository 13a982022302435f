/* SPDX-License-Identifier: Apache-2.0
 *
 * Emitting commands as data. Nothing here calls OpenCL or needs a device; the emitter keeps the first error,
 * so that emitting code needs no checks in between. This file must not know what a tensor number means. */
#include "cl/command/command.h"
#include "cl/command/variant.h"
#include "cl/kernels/program_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ocl_command_list_free(ocl_command_list *list)
{
    if (list == NULL)
        return;
    free(list->commands);
    list->commands = NULL;
    list->count = list->capacity = 0;
}

/* Errors */

void ocl_emit_fail(ocl_emitter *e, clt_status status)
{
    if (status == CLT_OK || e->status != CLT_OK)
        return;
    clt_error_take(status, &e->error);
    e->status = status;
}

clt_status ocl_emit_status(ocl_emitter *e)
{
    if (e->status == CLT_OK && e->open != NULL)
        ocl_emit_fail(e, clt_fail(CLT_EINTERNAL, __FILE__, __LINE__,
                                  "emitting '%s': command '%s' was begun and not ended",
                                  e->label ? e->label : "", e->open->kernel ? e->open->kernel : "host"));
    return e->status == CLT_OK ? CLT_OK : clt_error_put(&e->error);
}

void ocl_emitter_free(ocl_emitter *e)
{
    if (e != NULL)
        clt_str_free(&e->options);
}

#define EMIT_FAIL(e, ...) ocl_emit_fail(e, clt_fail(CLT_EINTERNAL, __FILE__, __LINE__, __VA_ARGS__))

static const char *label_of(const ocl_emitter *e)
{
    return e->label ? e->label : "";
}

/* Opening and closing a command. The open command is stored after the last element of the list; closing it
 * makes the list one element longer. */

static const char *keep_text(ocl_emitter *e, const char *text)
{
    char *copy = clt_arena_strdup(e->list->arena, text ? text : "");
    if (copy == NULL)
        ocl_emit_fail(e, CLT_ENOMEM);
    return copy;
}

static ocl_command *begin(ocl_emitter *e, ocl_command_kind kind)
{
    ocl_command_list *list = e->list;
    if (e->status != CLT_OK)
        return NULL;
    if (e->open != NULL) {
        EMIT_FAIL(e, "emitting '%s': a command is begun inside another one", label_of(e));
        return NULL;
    }
    ocl_emit_fail(
        e, clt_grow(&list->commands, &list->capacity, list->count + 1, sizeof *list->commands, "commands"));
    if (e->status != CLT_OK)
        return NULL;
    ocl_command *command = &list->commands[list->count];
    memset(command, 0, sizeof *command);
    command->kind = kind;
    command->label = keep_text(e, e->label);
    command->layer = keep_text(e, e->layer);
    command->variant = keep_text(e, e->variant);
    command->made_by = e->made_by;
    command->form = e->form;
    command->needs = e->made_by ? e->made_by->needs : 0;
    command->node = e->node;
    command->derives = e->derives;
    if (e->status != CLT_OK)
        return NULL;
    e->open = command;
    return command;
}

static void commit(ocl_emitter *e)
{
    e->open = NULL;
    if (e->status == CLT_OK)
        e->list->count++;
}

/* The open command, or NULL after an error. */
static ocl_command *opened(ocl_emitter *e)
{
    if (e->status != CLT_OK)
        return NULL;
    if (e->open == NULL)
        EMIT_FAIL(e, "emitting '%s': an argument or an end outside of a command", label_of(e));
    return e->open;
}

static ocl_arg *add_arg(ocl_emitter *e, ocl_arg_kind kind)
{
    ocl_command *command = opened(e);
    if (command == NULL)
        return NULL;
    if (command->n_args == OCL_MAX_ARGS) {
        EMIT_FAIL(e, "emitting '%s': kernel '%s' has more than %d arguments", label_of(e),
                  command->kernel ? command->kernel : "host", OCL_MAX_ARGS);
        return NULL;
    }
    ocl_arg *arg = &command->args[command->n_args++];
    memset(arg, 0, sizeof *arg);
    arg->kind = kind;
    return arg;
}

/* Kernels */

void ocl_kernel_begin(ocl_emitter *e, const char *family, const char *kernel)
{
    ocl_command *command = begin(e, OCL_CMD_KERNEL);
    if (command == NULL)
        return;
    command->family = keep_text(e, family);
    command->kernel = keep_text(e, kernel);
    clt_str_free(&e->options);
    ocl_define_text(e, OCL_ONLY_DEFINE, kernel);
    if ((e->device->quirks & OCL_QUIRK_FOREIGN_UNOPTIMISED) && e->made_by != NULL &&
        ocl_variant_is_foreign(e->made_by, e->device))
        ocl_build_option(e, "-cl-opt-disable");
}

void ocl_define(ocl_emitter *e, const char *name, int64_t value)
{
    if (opened(e) == NULL)
        return;
    clt_str_printf(&e->options, "%s-D%s=%lld", e->options.length ? " " : "", name, (long long)value);
}

void ocl_define_text(ocl_emitter *e, const char *name, const char *value)
{
    if (opened(e) == NULL)
        return;
    if (value[0] == '\0' || value[strcspn(value, " \t\r\n\"'\\$")] != '\0') {
        EMIT_FAIL(e, "emitting '%s': -D%s=%s cannot be passed to every compiler (empty, space or quote)",
                  label_of(e), name, value);
        return;
    }
    clt_str_printf(&e->options, "%s-D%s=%s", e->options.length ? " " : "", name, value);
}

void ocl_build_option(ocl_emitter *e, const char *option)
{
    if (opened(e) != NULL)
        clt_str_printf(&e->options, "%s%s", e->options.length ? " " : "", option);
}

void ocl_arg_tensor(ocl_emitter *e, ocl_access access, ocl_tensor_ref ref, clt_dtype dtype, uint64_t elements)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_TENSOR);
    if (arg == NULL)
        return;
    arg->access = access;
    arg->ref = ref;
    arg->element_bytes = (uint32_t)clt_dtype_bytes(dtype);
    if (ref.tensor == OCL_NO_TENSOR_ID)
        return;
    if (ref.offset % arg->element_bytes != 0)
        EMIT_FAIL(e, "emitting '%s': kernel '%s', argument %d: byte offset %llu is not a multiple of %s",
                  label_of(e), e->open->kernel ? e->open->kernel : "host", e->open->n_args - 1,
                  (unsigned long long)ref.offset, clt_dtype_name(dtype));
    else if (!clt_mul_u64(elements, arg->element_bytes, &arg->bytes))
        EMIT_FAIL(e, "emitting '%s': a tensor of %llu elements is too large", label_of(e),
                  (unsigned long long)elements);
}

void ocl_arg_in(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements)
{
    ocl_arg_tensor(e, OCL_READ, ocl_ref(tensor), dtype, elements);
}

void ocl_arg_out(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements)
{
    ocl_arg_tensor(e, OCL_WRITE, ocl_ref(tensor), dtype, elements);
}

void ocl_arg_inout(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements)
{
    ocl_arg_tensor(e, OCL_READ_WRITE, ocl_ref(tensor), dtype, elements);
}

void ocl_arg_grad(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements, bool accumulate)
{
    ocl_arg_grad_part(e, ocl_ref(tensor), dtype, elements, accumulate);
}

void ocl_arg_grad_part(ocl_emitter *e, ocl_tensor_ref ref, clt_dtype dtype, uint64_t elements,
                       bool accumulate)
{
    ocl_arg_tensor(e, accumulate ? OCL_READ_WRITE : OCL_WRITE, ref, dtype, elements);
    ocl_arg_i32(e, accumulate);
}

void ocl_arg_i32(ocl_emitter *e, int32_t value)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_I32);
    if (arg != NULL)
        arg->value.i32 = value;
}

void ocl_arg_u32(ocl_emitter *e, uint32_t value)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_U32);
    if (arg != NULL)
        arg->value.u32 = value;
}

void ocl_arg_u64(ocl_emitter *e, uint64_t value)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_U64);
    if (arg != NULL)
        arg->value.u64 = value;
}

void ocl_arg_is_bound(ocl_emitter *e)
{
    if (e->status == CLT_OK && e->open != NULL && e->open->n_args > 0)
        e->open->args[e->open->n_args - 1].bound = true;
}

void ocl_arg_f32(ocl_emitter *e, float value)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_F32);
    if (arg != NULL)
        arg->value.f32 = value;
}

void ocl_arg_local(ocl_emitter *e, uint64_t bytes)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_LOCAL);
    if (arg != NULL)
        arg->value.u64 = bytes;
}

void ocl_arg_tile_counter(ocl_emitter *e)
{
    (void)add_arg(e, OCL_ARG_TILE_COUNTER);
}

void ocl_kernel_needs(ocl_emitter *e, uint32_t caps)
{
    ocl_command *command = opened(e);
    if (command != NULL)
        command->needs |= caps;
}

static void check_groups(ocl_emitter *e, uint32_t dim, uint64_t groups)
{
    uint64_t most = dim == 0 ? OCL_MAX_GROUPS_X : OCL_MAX_GROUPS_YZ;
    if (groups > most)
        ocl_emit_fail(e, clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                                  "emitting '%s': kernel %s needs %llu work-groups in dimension %u, and "
                                  "NVIDIA's drivers launch at most %llu; use a smaller micro-batch",
                                  label_of(e), e->open->kernel, (unsigned long long)groups, dim,
                                  (unsigned long long)most));
}

static void kernel_end(ocl_emitter *e, uint32_t dims, const uint64_t *global, const uint64_t *local,
                       double flops)
{
    ocl_command *command = opened(e);
    bool empty = false;
    if (command == NULL)
        return;
    if (command->kind != OCL_CMD_KERNEL) {
        EMIT_FAIL(e, "emitting '%s': a kernel's end closes a host command", label_of(e));
        return;
    }
    uint64_t items = 1;
    for (uint32_t i = 0; i < dims; i++)
        items *= local[i] ? local[i] : 1;
    if (items > 64 && !command->free_local)
        command->needs |= OCL_CAP_WG256;
    command->work_dim = dims;
    command->flops = flops;
    for (uint32_t i = 0; i < dims; i++) {
        uint64_t group = local[i] ? local[i] : 1;
        empty = empty || global[i] == 0;
        command->local[i] = (size_t)group;
        command->global[i] = (size_t)clt_align_up(global[i], group);
        check_groups(e, i, command->global[i] / group);
    }
    ocl_emit_fail(e, clt_str_check(&e->options));
    command->options = keep_text(e, e->options.text);
    clt_str_free(&e->options);
    if (empty) /* an empty tensor: no launch, since OpenCL 1.2 refuses a global size of 0 */
        e->open = NULL;
    else
        commit(e);
}

/* The standard group size: whole warps for GPUs; for CPUs few groups, but enough for all compute units. */
static uint64_t local_for(const ocl_device_desc *device, uint64_t items)
{
    uint64_t most = ocl_group_items(device, device->is_cpu ? 512 : 64), local = device->is_cpu ? 1 : most;
    uint64_t units = device->compute_units ? device->compute_units : 1;
    while (local * 2 <= most && local * 2 * units * 4 <= items)
        local *= 2;
    return local;
}

void ocl_kernel_end_items(ocl_emitter *e, uint64_t global, uint64_t local, double flops)
{
    if (local == 0)
        local = local_for(e->device, global);
    if (e->open != NULL)
        e->open->free_local = true;
    kernel_end(e, 1, &global, &local, flops);
}

void ocl_kernel_end_1d(ocl_emitter *e, uint64_t global, uint64_t local, double flops)
{
    if (local == 0)
        ocl_kernel_end_items(e, global, 0, flops);
    else
        kernel_end(e, 1, &global, &local, flops);
}

void ocl_kernel_end_2d(ocl_emitter *e, uint64_t gx, uint64_t gy, uint64_t lx, uint64_t ly, double flops)
{
    const uint64_t global[2] = {gx, gy}, local[2] = {lx, ly};
    kernel_end(e, 2, global, local, flops);
}

void ocl_kernel_end_3d(ocl_emitter *e, const uint64_t global[3], const uint64_t local[3], double flops)
{
    kernel_end(e, 3, global, local, flops);
}

/* The other kinds */

static void add_bytes(ocl_emitter *e, ocl_access access, ocl_tensor_ref ref, uint32_t element_bytes,
                      uint64_t bytes)
{
    ocl_arg *arg = add_arg(e, OCL_ARG_TENSOR);
    if (arg == NULL)
        return;
    arg->access = access;
    arg->ref = ref;
    arg->element_bytes = element_bytes;
    arg->bytes = bytes;
}

void ocl_emit_copy(ocl_emitter *e, ocl_tensor_ref dst, ocl_tensor_ref src, uint64_t bytes)
{
    if (bytes == 0 || begin(e, OCL_CMD_COPY) == NULL)
        return;
    add_bytes(e, OCL_WRITE, dst, 1, bytes);
    add_bytes(e, OCL_READ, src, 1, bytes);
    commit(e);
}

void ocl_emit_fill(ocl_emitter *e, ocl_tensor_ref dst, uint64_t bytes, uint32_t pattern)
{
    if (bytes == 0)
        return;
    ocl_command *command = begin(e, OCL_CMD_FILL);
    if (command == NULL)
        return;
    bool uniform = pattern == (pattern & 0xffu) * 0x01010101u;
    if ((bytes % 4 != 0 || dst.offset % 4 != 0) && !uniform)
        EMIT_FAIL(e,
                  "emitting '%s': a fill of %llu bytes at %llu is not made of whole words, pattern 0x%08x "
                  "cannot be written",
                  label_of(e), (unsigned long long)bytes, (unsigned long long)dst.offset, pattern);
    add_bytes(e, OCL_WRITE, dst, bytes % 4 == 0 && dst.offset % 4 == 0 ? 4 : 1, bytes);
    command->args[0].value.u32 = pattern;
    commit(e);
}

void ocl_emit_library(ocl_emitter *e, const ocl_library *library, const struct ocl_gemm *gemm, size_t size,
                      double flops, const ocl_span_use use[3])
{
    ocl_command *command = begin(e, OCL_CMD_GEMM);
    if (command == NULL)
        return;
    command->gemm = clt_arena_alloc(e->list->arena, size);
    if (command->gemm == NULL) {
        ocl_emit_fail(e, CLT_ENOMEM);
        e->open = NULL;
        return;
    }
    memcpy(command->gemm, gemm, size);
    command->library = library;
    command->flops = flops;
    for (int i = 0; i < 3; i++)
        add_bytes(e, use[i].access, use[i].ref, use[i].element_bytes, use[i].bytes);
    commit(e);
}

void ocl_host_begin(ocl_emitter *e, int32_t code)
{
    ocl_command *command = begin(e, OCL_CMD_HOST);
    if (command != NULL)
        command->host_code = code;
}

void ocl_host_waits(ocl_emitter *e)
{
    ocl_command *command = opened(e);
    if (command != NULL)
        command->host_waits = true;
}

void ocl_host_end(ocl_emitter *e)
{
    ocl_command *command = opened(e);
    if (command == NULL)
        return;
    if (command->kind != OCL_CMD_HOST)
        EMIT_FAIL(e, "emitting '%s': a host command's end closes kernel '%s'", label_of(e), command->kernel);
    commit(e);
}

int32_t ocl_workspace(ocl_emitter *e, clt_dtype dtype, uint64_t elements, const char *name)
{
    if (e->status != CLT_OK)
        return OCL_NO_TENSOR_ID;
    if (e->workspace == NULL) {
        EMIT_FAIL(e, "emitting '%s': workspace '%s' is needed, but the caller provides none", label_of(e),
                  name);
        return OCL_NO_TENSOR_ID;
    }
    return e->workspace(e->owner, dtype, elements, name);
}

int32_t ocl_derive_begin(ocl_emitter *e, const ocl_derivation *derivation, bool *make)
{
    ocl_derived kept = {.tensor = OCL_NO_TENSOR_ID};
    if (e->status == CLT_OK && e->derive != NULL)
        ocl_emit_fail(e, e->derive(e->deriver, derivation, &kept));
    e->derives = kept.derives;
    *make = !kept.there;
    return kept.tensor != OCL_NO_TENSOR_ID
               ? kept.tensor
               : ocl_workspace(e, derivation->dtype, derivation->elements, derivation->name);
}

void ocl_derive_end(ocl_emitter *e)
{
    e->derives = 0;
}

uint64_t ocl_command_bytes(const ocl_command *command)
{
    uint64_t total = 0;
    for (int i = 0; i < command->n_args; i++) {
        const ocl_arg *arg = &command->args[i];
        if (arg->kind == OCL_ARG_TENSOR)
            total += arg->access == OCL_READ_WRITE ? 2 * arg->bytes : arg->bytes;
    }
    return total;
}

bool ocl_same_code(const ocl_command *a, const ocl_command *b)
{
    if (a->kind != OCL_CMD_KERNEL || b->kind != OCL_CMD_KERNEL || a->work_dim != b->work_dim ||
        strcmp(a->kernel, b->kernel) != 0 || strcmp(a->family, b->family) != 0 ||
        strcmp(a->options, b->options) != 0)
        return false;
    for (unsigned i = 0; i < a->work_dim; i++)
        if (a->local[i] != b->local[i] ||
            (a->global[i] >= OCL_SMALL_LAUNCH) != (b->global[i] >= OCL_SMALL_LAUNCH))
            return false;
    return true;
}

const char *ocl_command_kind_name(ocl_command_kind kind)
{
    static const char *const names[] = {"kernel", "gemm", "copy", "fill", "host"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}
