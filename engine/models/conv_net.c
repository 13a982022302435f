/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the layers that the families of convolutional networks share, and checks their input and target. */
#include "engine/models/conv_net.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/ops/op.h"

static clt_status net_fail(const clt_conv_net *net, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static clt_status net_fail(const clt_conv_net *net, const char *key, const char *format, ...)
{
    char why[400];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return clt_model_key_fail(&net->b, key, why);
}

clt_status clt_conv_net_next(clt_conv_net *net, const char *op, const char *name, const clt_attr_given *attrs,
                             clt_node **node)
{
    clt_node *added;
    CLT_TRY(clt_model_at(net->b.doc, net->b.model,
                         clt_graph_add_op(net->b.graph, op, name, NULL, &net->at, 1, attrs, &added)));
    net->at = added->out[0];
    if (node)
        *node = added;
    return CLT_OK;
}

clt_status clt_conv_net_join(clt_conv_net *net, const char *op, const char *name, int32_t first,
                             const clt_attr_given *attrs)
{
    clt_node *node;
    int32_t inputs[2] = {first, net->at};
    CLT_TRY(clt_model_at(net->b.doc, net->b.model,
                         clt_graph_add_op(net->b.graph, op, name, NULL, inputs, 2, attrs, &node)));
    if (node->n_out > 0)
        net->at = node->out[0];
    return CLT_OK;
}

clt_status clt_conv_net_conv(clt_conv_net *net, const char *name, const clt_conv_layer *layer)
{
    int64_t padding = (layer->kernel - 1) / 2;
    return clt_conv_net_next(
        net, net->dims == 2 ? "conv2d" : "conv3d", name,
        CLT_ATTRS(CLT_A_INT("out", layer->out), CLT_A_INTS("kernel", &layer->kernel, 1),
                  CLT_A_INTS("stride", &layer->stride, 1), CLT_A_INTS("padding", &padding, 1),
                  CLT_A_INT("groups", layer->groups > 0 ? layer->groups : 1), CLT_A_BOOL("bias", layer->bias),
                  CLT_A_WORD("init", "kaiming_normal_out")),
        NULL);
}

clt_status clt_conv_net_read_norm(clt_conv_net *net, const char *otherwise)
{
    net->norm = "auto";
    net->norm_groups = 8;
    CLT_TRY(clt_model_read_word(&net->b, "norm", CLT_CONV_NET_NORMS, &net->norm));
    CLT_TRY(clt_model_read_int(&net->b, "norm_groups", 1, &net->norm_groups));
    if (strcmp(net->norm, "auto") == 0)
        net->norm = otherwise;
    return CLT_OK;
}

clt_status clt_conv_net_norm(clt_conv_net *net, const char *name, bool zero)
{
    clt_node *node;
    const char *norm = net->norm ? net->norm : "batch_norm";
    const clt_attr_given *grouped =
        CLT_ATTRS(CLT_A_INT("groups", net->norm_groups), CLT_A_BOOL("affine", true));
    bool groups = strcmp(norm, "group_norm") == 0;
    CLT_TRY(clt_conv_net_next(net, norm, name, groups ? grouped : grouped + 1, &node));
    if (zero)
        net->b.graph->params[node->param[0]].init.kind = CLT_INIT_ZEROS;
    return CLT_OK;
}

/* --- input and output --- */

/* Checks that y has an integer type and holds one class for each sample or, if net->dense, a mask with the
 * spatial sizes of x. */
static clt_status check_target(const clt_conv_net *net)
{
    const clt_shape *x = &net->x->shape, *y = &net->y->shape;
    char want[CLT_SHAPE_TEXT], got[CLT_SHAPE_TEXT];
    if (clt_dtype_is_float(net->y->dtype))
        return net_fail(net, "type", "%s predicts classes, but the targets y are %s; they must be integers",
                        net->noun, clt_dtype_name(net->y->dtype));
    if (!net->dense && clt_shape_elements(y) != 1)
        return net_fail(net, "type",
                        "%s predicts one class for each sample, but the targets y have the shape %s",
                        net->noun, clt_shape_text(y, got, sizeof got));
    if (!net->dense)
        return CLT_OK;
    clt_shape places = clt_shape_make(net->dims, x->dim + x->ndim - net->dims);
    if (!clt_shape_equal(&places, y))
        return net_fail(net, "type",
                        "%s needs a mask of the shape %s as the target y, but y has the shape %s", net->noun,
                        clt_shape_text(&places, want, sizeof want), clt_shape_text(y, got, sizeof got));
    return CLT_OK;
}

static clt_status read_classes(clt_conv_net *net)
{
    CLT_TRY(clt_model_read_int(&net->b, "classes", 0, &net->classes));
    if (net->classes > 0)
        return CLT_OK;
    if (net->y->max_value < 0)
        return net_fail(net, "classes",
                        "the number of classes is not known from the data; give it: model.classes=10, say");
    net->classes = net->y->max_value + 1;
    return CLT_OK;
}

/* Adds a dimension for channels to data that has none. */
static clt_status add_channel(clt_conv_net *net)
{
    const clt_shape *x = &net->x->shape;
    int64_t shape[CLT_MAX_DIMS] = {1};
    if (x->ndim != net->dims)
        return CLT_OK;
    for (int i = 0; i < x->ndim; i++)
        shape[1 + i] = x->dim[i];
    return clt_conv_net_next(net, "reshape", "channel", CLT_ATTRS(CLT_A_INTS("shape", shape, net->dims + 1)),
                             NULL);
}

clt_status clt_conv_net_open(clt_conv_net *net)
{
    int x = clt_model_find_field(net->b.inputs, "x"), y = clt_model_find_field(net->b.inputs, "y");
    char text[CLT_SHAPE_TEXT];
    if (x < 0 || y < 0)
        return net_fail(net, "type", "%s needs the data fields 'x' and 'y', which this data does not offer",
                        net->noun);
    net->x = &net->b.inputs->field[x];
    net->y = &net->b.inputs->field[y];
    net->at = net->b.graph->fields[x].tensor;
    net->target = net->b.graph->fields[y].tensor;
    if (net->x->shape.ndim != net->dims && net->x->shape.ndim != net->dims + 1)
        return net_fail(net, "type", "%s needs %s; the samples x of this data have the shape %s", net->noun,
                        net->dims == 2 ? "images (channels, height, width)"
                                       : "volumes (channels, depth, height, width)",
                        clt_shape_text(&net->x->shape, text, sizeof text));
    CLT_TRY(check_target(net));
    CLT_TRY(read_classes(net));
    CLT_TRY(clt_model_read_class_weights(&net->b, net->noun, net->classes, &net->class_weights));
    CLT_TRY(clt_model_number(&net->b, clt_op_find(net->dims == 2 ? "conv2d" : "conv3d"), 0, false, &net->at));
    return add_channel(net);
}

clt_status clt_conv_net_loss(clt_conv_net *net, const char *op, const char *name, const int32_t *inputs,
                             int n_inputs, const clt_attr_given *attrs)
{
    clt_attr_given all[6];
    clt_node *node;
    int n = 0;
    for (; attrs[n].name; n++)
        all[n] = attrs[n];
    if (net->class_weights)
        all[n++] = (clt_attr_given)CLT_A_FLOATS("class_weights", net->class_weights, (int)net->classes);
    all[n] = (clt_attr_given){.name = NULL};
    return clt_model_at(net->b.doc, net->b.model,
                        clt_graph_add_op(net->b.graph, op, name, NULL, inputs, n_inputs, all, &node));
}

clt_status clt_conv_net_classify(clt_conv_net *net)
{
    double smoothing = 0;
    CLT_TRY(clt_model_read_share(&net->b, "label_smoothing", &smoothing));
    CLT_TRY(clt_conv_net_next(net, "adaptive_avg_pool", "avgpool", NULL, NULL));
    CLT_TRY(clt_conv_net_next(net, "flatten", "flatten", NULL, NULL));
    CLT_TRY(clt_conv_net_next(net, "linear", "fc", CLT_ATTRS(CLT_A_INT("out", net->classes)), NULL));
    int32_t inputs[4] = {net->at, net->target};
    int field[2], mixed;
    CLT_TRY(clt_model_at(net->b.doc, net->b.model,
                         clt_model_mixed_fields(net->b.inputs, clt_op_find("cross_entropy"), field, &mixed)));
    for (int i = 0; i < mixed; i++)
        inputs[2 + i] = net->b.graph->fields[field[i]].tensor;
    return clt_conv_net_loss(net, "cross_entropy", "loss", inputs, 2 + mixed,
                             CLT_ATTRS(CLT_A_FLOAT("label_smoothing", smoothing)));
}

/* --- config keys of these families --- */

void clt_conv_net_rules(clt_config_rules *rules, const char *noun)
{
    if (clt_rules_takes(rules, "data.type", "data.targets") && clt_rules_empty(rules, "data.targets"))
        clt_rules_broken(rules, "data.targets",
                         "required for %s on this data.type: name the file of labels or targets", noun);
}

bool clt_conv_net_classes_from_data(const clt_config *config)
{
    return clt_config_int(config, "model.classes") == 0;
}
