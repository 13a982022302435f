/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the problems of conv.h from a call: sizes, tensors and types, for ordinary and transposed
 * convolutions. Also their text and number of operations. */
#include "engine/ops/conv/conv.h"

#include <stdio.h>

#include "engine/ops/emit_util.h"

bool clt_conv_is_pointwise(const clt_conv *c)
{
    for (int i = 0; i < CLT_SPATIAL_MAX; i++)
        if (c->s.kernel[i] != 1 || c->s.stride[i] != 1 || c->s.padding[i] != 0 || c->s.in[i] != c->s.out[i])
            return false;
    return true;
}

double clt_conv_flops(const clt_conv *c)
{
    return 2.0 * (double)clt_conv_rows(c) * (double)clt_conv_taps(c) * (double)c->results *
           (double)(c->s.channels / c->groups);
}

const char *clt_conv_text(const clt_conv *c, char *buffer, size_t size)
{
    /* numbers after '=' may differ a little between a problem and its tuning record, words may not */
    static const char *const kinds[] = {"result", "image", "weight"};
    const clt_spatial *s = &c->s;
#define CLT_THREE(v) (long long)(v)[0], (long long)(v)[1], (long long)(v)[2]
    snprintf(buffer, size,
             "%s n=%lld c=%lld k=%lld d=%lld h=%lld w=%lld groups:%lld window:%lld.%lld.%lld "
             "stride:%lld.%lld.%lld padding:%lld.%lld.%lld dilation:%lld.%lld.%lld %s*%s->%s%s%s%s",
             kinds[c->kind], (long long)s->n, (long long)s->channels, (long long)c->results, CLT_THREE(s->in),
             (long long)c->groups, CLT_THREE(s->kernel), CLT_THREE(s->stride), CLT_THREE(s->padding),
             CLT_THREE(s->dilation), clt_dtype_name(c->type_image), clt_dtype_name(c->type_weight),
             clt_dtype_name(c->type_result), c->bias >= 0 ? " +bias" : "", c->accumulate ? " +add" : "",
             c->tf32 ? " +tf32" : "");
#undef CLT_THREE
    return buffer;
}

/* The sizes of the underlying convolution. For a transposed op this is the convolution whose gradient the op
 * computes; the op's output is the image of that convolution. */
static clt_conv sizes_of(const clt_call *call, bool transposed)
{
    const clt_node *node = call->node;
    const clt_shape *image = &clt_call_tensor(call, transposed ? call->out[0] : call->in[0])->shape;
    const clt_shape *result = &clt_call_tensor(call, transposed ? call->in[0] : call->out[0])->shape;
    clt_conv c = {.s = clt_spatial_of(node, image, false),
                  .results = result->dim[1],
                  .groups = clt_node_attr(node, "groups")->i,
                  .bias = -1};
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int at = i - (CLT_SPATIAL_MAX - c.s.dims);
        c.s.out[i] = at < 0 ? 1 : result->dim[2 + at];
    }
    return c;
}

static void set_tensors(const clt_call *call, clt_conv *c, int32_t image, int32_t weight, int32_t result)
{
    c->image = image;
    c->weight = weight;
    c->result = result;
    c->type_image = clt_call_dtype(call, image);
    c->type_weight = clt_call_dtype(call, weight);
    c->type_result = clt_call_dtype(call, result);
    c->tf32 =
        call->tf32 && c->type_image == CLT_F32 && c->type_weight == CLT_F32 && c->type_result == CLT_F32;
}

clt_conv clt_conv_forward_of(const clt_call *call, bool transposed)
{
    clt_conv c = sizes_of(call, transposed);
    c.kind = transposed ? CLT_CONV_IMAGE : CLT_CONV_RESULT;
    set_tensors(call, &c, transposed ? call->out[0] : call->in[0], call->param[0],
                transposed ? call->in[0] : call->out[0]);
    c.bias = call->node->n_param > 1 ? call->param[1] : -1;
    c.moments = transposed ? NULL : call->moments;
    return c;
}

clt_conv clt_conv_data_of(const clt_call *call, bool transposed)
{
    clt_conv c = sizes_of(call, transposed);
    c.kind = transposed ? CLT_CONV_RESULT : CLT_CONV_IMAGE;
    set_tensors(call, &c, transposed ? call->dout[0] : call->din[0], call->param[0],
                transposed ? call->din[0] : call->dout[0]);
    c.accumulate = call->din_accumulate[0];
    return c;
}

clt_conv clt_conv_weight_of(const clt_call *call, bool transposed)
{
    clt_conv c = sizes_of(call, transposed);
    c.kind = CLT_CONV_WEIGHT;
    set_tensors(call, &c, transposed ? call->dout[0] : call->in[0], call->dparam[0],
                transposed ? call->in[0] : call->dout[0]);
    c.accumulate = call->dparam_accumulate[0];
    return c;
}
