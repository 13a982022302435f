/* SPDX-License-Identifier: Apache-2.0
 *
 * Suggestions for names that are not an op: by the names that other tools use, or by similar spelling. */
#include <stdio.h>
#include <string.h>

#include "engine/ops/op.h"

typedef struct other_name {
    const char *name; /* the name in lower case, without '_' and '-' */
    const char *op;   /* NULL: there is none */
    const char *note; /* or NULL */
} other_name;

static const other_name other_names[] = {
    {"dense", "linear", NULL},
    {"fc", "linear", NULL},
    {"fullyconnected", "linear", NULL},
    {"gemm", "linear", NULL},
    {"conv", "conv2d", NULL},
    {"convolution", "conv2d", NULL},
    {"convolution2d", "conv2d", NULL},
    {"depthwiseconv2d", "conv2d", "with \"groups\" equal to the number of channels"},
    {"deconv2d", "conv_transpose2d", NULL},
    {"deconvolution", "conv_transpose2d", NULL},
    {"deconv3d", "conv_transpose3d", NULL},
    {"embed", "embedding", NULL},
    {"wte", "embedding", NULL},
    {"swish", "silu", NULL},
    {"gelunew", "gelu", "with \"approximate\": \"tanh\""},
    {"gelutanh", "gelu", "with \"approximate\": \"tanh\""},
    {"ln", "layernorm", NULL},
    {"norm", "layernorm", NULL},
    {"mul", "multiply", NULL},
    {"residual", "add", "with \"inputs\": [both layers]"},
    {"skip", "add", "with \"inputs\": [both layers]"},
    {"sum", "reduce", "with \"kind\": \"sum\""},
    {"mean", "reduce", "with \"kind\": \"mean\""},
    {"maxpool2d", "max_pool", NULL},
    {"maxpool3d", "max_pool", NULL},
    {"maxpooling2d", "max_pool", NULL},
    {"maxpooling3d", "max_pool", NULL},
    {"adaptivemaxpool2d", "adaptive_max_pool", NULL},
    {"adaptivemaxpool3d", "adaptive_max_pool", NULL},
    {"globalmaxpool", "adaptive_max_pool", "without attributes"},
    {"globalmaxpooling2d", "adaptive_max_pool", "without attributes"},
    {"globalmaxpooling3d", "adaptive_max_pool", "without attributes"},
    {"avgpool2d", "avg_pool", NULL},
    {"avgpool3d", "avg_pool", NULL},
    {"averagepool", "avg_pool", NULL},
    {"averagepooling2d", "avg_pool", NULL},
    {"averagepooling3d", "avg_pool", NULL},
    {"adaptiveavgpool2d", "adaptive_avg_pool", NULL},
    {"adaptiveavgpool3d", "adaptive_avg_pool", NULL},
    {"globalavgpool", "adaptive_avg_pool", "without attributes"},
    {"globalaveragepool", "adaptive_avg_pool", "without attributes"},
    {"globalaveragepooling2d", "adaptive_avg_pool", "without attributes"},
    {"globalaveragepooling3d", "adaptive_avg_pool", "without attributes"},
    {"gap", "adaptive_avg_pool", "without attributes"},
    {"interpolate", "upsample", NULL},
    {"resize", "upsample", NULL},
    {"upsampling2d", "upsample", NULL},
    {"upsampling3d", "upsample", NULL},
    {"upsamplenearest", "upsample", NULL},
    {"upsamplingnearest2d", "upsample", NULL},
    {"upsamplebilinear", "upsample", "with \"mode\": \"linear\""},
    {"upsamplingbilinear2d", "upsample", "with \"mode\": \"linear\", \"align_corners\": true"},
    {"view", "reshape", NULL},
    {"permute", "transpose", NULL},
    {"cat", "concat", NULL},
    {"concatenate", "concat", NULL},
    {"selfattention", "attention", NULL},
    {"mha", "attention", NULL},
    {"multiheadattention", "attention", NULL},
    {"scaleddotproductattention", "attention", NULL},
    {"rope", "rotary", NULL},
    {"rotaryembedding", "rotary", NULL},
    {"rmsnormalization", "rmsnorm", NULL},
    {"softmaxcrossentropy", "cross_entropy", NULL},
    {"crossentropyloss", "cross_entropy", NULL},
    {"ce", "cross_entropy", NULL},
    {"nll", "cross_entropy", "it takes logits, without a softmax before it"},
    {"nllloss", "cross_entropy", "it takes logits, without a softmax before it"},
    {"mseloss", "mse", NULL},
    {"l2", "mse", NULL},
    {"mae", "l1", NULL},
    {"l1loss", "l1", NULL},
    {"bce", "bce_with_logits", NULL},
    {"bceloss", "bce_with_logits", "it takes logits, without a sigmoid before it"},
    {"bcewithlogitsloss", "bce_with_logits", NULL},
    {"dice", "dice_loss", NULL},
    {"diceloss", "dice_loss", NULL},
    {"dicece", "dice_loss", "and a cross_entropy on the same logits"},
    {"diceceloss", "dice_loss", "and a cross_entropy on the same logits"},
    {"batchnorm1d", "batch_norm", NULL},
    {"batchnormalization", "batch_norm", NULL},
    {"bn", "batch_norm", NULL},
    {"batchnorm2d", "batch_norm", NULL},
    {"batchnorm3d", "batch_norm", NULL},
    {"gn", "group_norm", NULL},
    {"groupnormalization", "group_norm", NULL},
    {"instancenormalization", "instance_norm", NULL},
    {"instancenorm1d", "instance_norm", NULL},
    {"instancenorm2d", "instance_norm", NULL},
    {"instancenorm3d", "instance_norm", NULL},
    {"lstm", NULL, "there are no recurrent layers"},
    {"gru", NULL, "there are no recurrent layers"},
    {"rnn", NULL, "there are no recurrent layers"},
};

/* Copies `name` in lower case, without '_' and '-', cut off at the buffer's end. */
static void plain_name(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name && n + 1 < size; name++)
        if (*name != '_' && *name != '-')
            out[n++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
    out[n] = '\0';
}

static const other_name *other(const char *name)
{
    char plain[48];
    plain_name(name, plain, sizeof plain);
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++)
        if (strcmp(other_names[i].name, plain) == 0)
            return &other_names[i];
    return NULL;
}

const clt_op *clt_op_near(const char *name)
{
    const char *names[128];
    char plain[48], op_plain[48];
    int count;
    size_t n = 0;
    const other_name *known = other(name);
    const clt_op *const *ops = clt_op_list(&count);
    if (known)
        return known->op ? clt_op_find(known->op) : NULL;
    plain_name(name, plain, sizeof plain);
    for (int i = 0; i < count && n < sizeof names / sizeof names[0]; i++) {
        if (ops[i]->flags & CLT_OP_FUSED)
            continue;
        plain_name(ops[i]->name, op_plain, sizeof op_plain);
        if (strcmp(plain, op_plain) == 0)
            return ops[i];
        names[n++] = ops[i]->name;
    }
    const char *near = clt_nearest_name(name, names, n);
    return near ? clt_op_find(near) : NULL;
}

const char *clt_op_hint(const char *name, char *buffer, size_t size)
{
    const other_name *known = other(name);
    const clt_op *near = clt_op_near(name);
    const char *note = known ? known->note : NULL;
    if (near)
        snprintf(buffer, size, "; did you mean '%s'%s%s?", near->name, note ? ", " : "", note ? note : "");
    else
        snprintf(buffer, size, "%s%s; 'cltrain ops' lists all of them", note ? ": " : "", note ? note : "");
    return buffer;
}
