/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes a call of an op by copies of its attributes and inputs, and formats it. Knows no op. */
#include "engine/ops/op_problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/json/json.h"

static void write_attr(clt_json_writer *w, const clt_attr_spec *spec, const clt_attr *attr)
{
    clt_jw_key(w, spec->name);
    switch (spec->type) {
    case CLT_ATTR_INT:
        clt_jw_int(w, attr->i);
        break;
    case CLT_ATTR_FLOAT:
        clt_jw_double(w, attr->f);
        break;
    case CLT_ATTR_BOOL:
        clt_jw_bool(w, attr->b);
        break;
    case CLT_ATTR_CHOICE:
    case CLT_ATTR_STRING:
        clt_jw_string(w, attr->s);
        break;
    case CLT_ATTR_INTS:
        clt_jw_array(w);
        for (int32_t i = 0; i < attr->n_list; i++)
            clt_jw_int(w, attr->list[i]);
        clt_jw_end_array(w);
        break;
    case CLT_ATTR_FLOATS:
        clt_jw_array(w);
        for (int32_t i = 0; i < attr->n_list; i++)
            clt_jw_double(w, attr->number[i]);
        clt_jw_end_array(w);
        break;
    }
}

static clt_status write_attrs(const clt_node *node, char *out, size_t size)
{
    clt_str text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_jw_object(&w);
    for (int i = 0; i < node->op->n_attrs; i++)
        if (node->attr[i].set)
            write_attr(&w, &node->op->attrs[i], &node->attr[i]);
    clt_jw_end_object(&w);
    clt_status status = clt_str_check(&text);
    if (status == CLT_OK && text.length >= size)
        status = clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                          "the attributes of '%s' have more than %zu characters", node->name, size - 1);
    if (status == CLT_OK)
        memcpy(out, text.text, text.length + 1);
    clt_str_free(&text);
    return status;
}

static clt_status describe_call(const clt_call *call, bool backward, clt_op_problem *out)
{
    const clt_node *node = call->node;
    *out = (clt_op_problem){.op = node->op, .backward = backward, .tf32 = call->tf32, .n_in = node->n_in};
    for (int i = 0; i < node->n_in; i++) {
        const clt_tensor *t = clt_call_tensor(call, call->in[i]);
        clt_case_input *in = &out->in[i];
        in->dtype = t->dtype;
        in->fill = clt_dtype_is_float(t->dtype) ? CLT_FILL_NORMAL : CLT_FILL_INDEX;
        in->fill_max = 2;
        in->ndim = t->shape.ndim;
        memcpy(in->dim, t->shape.dim, sizeof in->dim);
        if (backward && call->din[i] >= 0)
            out->wanted |= 1u << i;
    }
    out->no_params = backward && node->n_param > 0;
    for (int i = 0; i < node->n_param; i++)
        out->no_params = out->no_params && call->dparam[i] < 0;
    if (backward && call->dout[0] >= 0)
        out->narrow = clt_call_tensor(call, call->dout[0])->dtype != CLT_F32;
    return write_attrs(node, out->attrs, sizeof out->attrs);
}

static clt_status describe(const clt_call *call, bool backward, void **data, size_t *size)
{
    clt_op_problem *p;
    *data = NULL;
    CLT_TRY(clt_alloc(&p, 1, sizeof *p, "a call of an op"));
    clt_status status = describe_call(call, backward, p);
    if (status != CLT_OK) {
        free(p);
        return status;
    }
    *data = p;
    *size = sizeof *p;
    return CLT_OK;
}

clt_status clt_op_fwd_describe(const void *call, void **data, size_t *size)
{
    return describe(call, false, data, size);
}

clt_status clt_op_bwd_describe(const void *call, void **data, size_t *size)
{
    return describe(call, true, data, size);
}

/* --- ops on rows --- */

const char *clt_rows_fwd_problem(const void *problem, char *buffer, size_t size)
{
    const clt_call *call = problem;
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    int n_param = call->node->n_param;
    snprintf(buffer, size, "rows=%lld cols=%lld %s", (long long)clt_shape_rows(&x->shape),
             (long long)clt_shape_last(&x->shape), clt_dtype_name(x->dtype));
    if (n_param > 0) {
        size_t length = strlen(buffer);
        snprintf(buffer + length, size - length, " params:%d:%s", n_param,
                 clt_dtype_name(clt_call_tensor(call, call->param[0])->dtype));
    }
    return buffer;
}

const char *clt_rows_bwd_problem(const void *problem, char *buffer, size_t size)
{
    const clt_call *call = problem;
    clt_rows_fwd_problem(problem, buffer, size);
    size_t length = strlen(buffer);
    bool params = false;
    for (int i = 0; i < call->node->n_param; i++)
        params = params || call->dparam[i] >= 0;
    snprintf(buffer + length, size - length, " dy:%s%s%s",
             clt_dtype_name(clt_call_tensor(call, call->dout[0])->dtype), call->din[0] >= 0 ? " +dx" : "",
             params ? " +dparams" : "");
    return buffer;
}

double clt_rows_flops(const void *problem)
{
    const clt_call *call = problem;
    return 8.0 * (double)clt_shape_elements(&clt_call_tensor(call, call->in[0])->shape);
}
