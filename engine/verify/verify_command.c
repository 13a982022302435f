/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one command alone, on its own buffers, for checks without an op and a plan. */
#include "engine/verify/verify_internal.h"

/* Finds a tensor's buffer; context: the buffers by tensor number. */
static clt_status resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    *buffer = ((ocl_buffer **)context)[tensor];
    *offset = 0;
    return CLT_OK;
}

clt_status clt_verify_command_begin(const clt_verify_session *session, const char *label,
                                    ocl_command_list *list, ocl_emitter *e)
{
    *list = (ocl_command_list){0};
    *e = (ocl_emitter){.list = list, .device = &session->desc, .label = label, .variant = "", .node = -1};
    return clt_arena_create(&list->arena);
}

static clt_status execute(clt_verify_session *session, const ocl_command_list *list, ocl_buffer **buffers)
{
    CLT_SCOPED(ocl_exec) *exec = NULL;
    ocl_exec_options options = {.resolve = resolve, .resolve_context = buffers};
    CLT_TRY(ocl_exec_create(session->device, list, &options, &exec));
    CLT_TRY(ocl_exec_run(exec, NULL));
    return ocl_finish(session->device, OCL_QUEUE_COMPUTE);
}

clt_status clt_verify_command_run(clt_verify_session *session, ocl_emitter *e, ocl_buffer **buffers)
{
    CLT_SCOPED(clt_arena) *arena = e->list->arena;
    CLT_SCOPED(ocl_command_list) list = *e->list;
    CLT_SCOPED(ocl_emitter) emitter = *e;
    CLT_TRY(ocl_emit_status(e));
    return execute(session, &list, buffers);
}

clt_status clt_verify_command_answer(clt_verify_session *session, ocl_emitter *e, const void *x,
                                     size_t x_bytes, void *y, size_t y_bytes)
{
    CLT_SCOPED(clt_arena) *arena = e->list->arena;
    CLT_SCOPED(ocl_command_list) list = *e->list;
    CLT_SCOPED(ocl_emitter) emitter = *e;
    CLT_SCOPED(ocl_buffer) *answers = NULL, *questions = NULL;
    CLT_TRY(ocl_emit_status(e));
    CLT_TRY(ocl_buffer_create(session->device, y_bytes, "known answers", &answers));
    CLT_TRY(ocl_buffer_create(session->device, x_bytes, "known questions", &questions));
    ocl_buffer *buffers[] = {answers, questions};
    CLT_TRY(ocl_write(answers, 0, y, y_bytes));
    CLT_TRY(ocl_write(questions, 0, x, x_bytes));
    CLT_TRY(execute(session, &list, buffers));
    return ocl_read(answers, 0, y, y_bytes);
}
