/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that the families of convolutional networks share: images or volumes as input, convolutions with
 * their initial values, norms, the layers that turn channels into a class, and the loss. Knows the batch
 * fields x and y, and the keys of the model section that all these families have. */
#ifndef ENGINE_MODELS_CONV_NET_H
#define ENGINE_MODELS_CONV_NET_H

#include "engine/models/models_internal.h"
#include "engine/ops/node.h"

/* A network under construction: a chain of layers, each of which reads the one before it. */
typedef struct clt_conv_net {
    clt_model_builder b;
    int dims;         /* 2: images (C,H,W), 3: volumes (C,D,H,W) */
    const char *noun; /* for messages: "a resnet" */
    bool dense;       /* y is a mask: a class for each pixel or voxel, not for each sample */
    const clt_model_field *x, *y;
    int32_t target;              /* tensor of y */
    int32_t at;                  /* output of the layer that was added last */
    int64_t classes;             /* model.classes, or the number of classes in the data */
    const char *norm;            /* the op of the norms; NULL: batch_norm */
    int64_t norm_groups;         /* groups of channels of group_norm */
    const double *class_weights; /* model.class_weights, one for each class; NULL: all are 1 */
} clt_conv_net;

/* A convolution. `kernel`, the size of the window in every dimension, is odd, and the input is padded so
 * that a stride of 1 keeps its size. */
typedef struct clt_conv_layer {
    int64_t out, kernel, stride, groups;
    bool bias;
} clt_conv_layer;

/* Finds x and y and checks their shapes; reads model.classes. net->at becomes x as numbers with channels,
 * (N,C,spatial...); data without a dimension for channels gets a channel dimension of size 1. CLT_ECONFIG
 * says what the data lacks. */
clt_status clt_conv_net_open(clt_conv_net *net);
/* Reads model.norm and model.norm_groups; `otherwise`: the norm for "auto". */
clt_status clt_conv_net_read_norm(clt_conv_net *net, const char *otherwise);
/* Adds a layer that reads the output of the layer before it; *node (may be NULL): the layer. */
clt_status clt_conv_net_next(clt_conv_net *net, const char *op, const char *name, const clt_attr_given *attrs,
                             clt_node **node);
/* Adds a layer that reads two tensors: `first`, and the output of the layer before it. */
clt_status clt_conv_net_join(clt_conv_net *net, const char *op, const char *name, int32_t first,
                             const clt_attr_given *attrs);
/* Adds a conv2d or conv3d with weights N(0, sqrt(2/fan_out)), as in residual networks of PyTorch. */
clt_status clt_conv_net_conv(clt_conv_net *net, const char *name, const clt_conv_layer *layer);
/* Adds a norm with factor 1 and shift 0. zero: the factor starts at 0, and so does the norm's output. */
clt_status clt_conv_net_norm(clt_conv_net *net, const char *name, bool zero);
/* Adds a loss of `inputs` with model.class_weights and up to 4 attributes; an attribute with the name NULL
 * ends `attrs`. */
clt_status clt_conv_net_loss(clt_conv_net *net, const char *op, const char *name, const int32_t *inputs,
                             int n_inputs, const clt_attr_given *attrs);
/* Adds the mean over all pixels or voxels, the linear layer "fc" with PyTorch's initial values, and
 * cross_entropy with model.label_smoothing. */
clt_status clt_conv_net_classify(clt_conv_net *net);

/* --- config keys of these families --- */

/* Adds the rules of the config that all these families have. */
void clt_conv_net_rules(clt_config_rules *rules, const char *noun);
/* True if the number of classes comes from the data (clt_model_family.width_from_data). */
bool clt_conv_net_classes_from_data(const clt_config *config);

#define CLT_CONV_NET_CLASSES                                                                                 \
    CLT_KEY_INT("model.classes", 0, CLT_KEY_WIDE, "0", "", "number of classes; 0: from the data")
#define CLT_CONV_NET_NORMS "batch_norm|group_norm|instance_norm|auto"
#define CLT_CONV_NET_NORM(auto_is)                                                                           \
    CLT_KEY_CHOICE("model.norm", CLT_CONV_NET_NORMS, "\"auto\"",                                             \
                   "norm after each convolution: batch_norm over the micro-batch, group_norm and "           \
                   "instance_norm over each sample separately, for small micro-batches; auto: " auto_is),    \
        CLT_KEY_INT("model.norm_groups", 1, 65536, "8", "",                                                  \
                    "group_norm: groups of channels; each layer's channels must be a multiple of it")
#define CLT_CONV_NET_SMOOTHING                                                                               \
    CLT_KEY_FLOAT_OPEN("model.label_smoothing", 0, false, 1, true, "0", "",                                  \
                       "cross entropy: share of the target spread over all classes")

#endif
