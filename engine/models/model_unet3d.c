/* SPDX-License-Identifier: Apache-2.0
 *
 * The unet3d family: a U-Net that gives each voxel of a volume a class. Every level has two 3x3x3
 * convolutions, each with a norm and a ReLU. In the encoder the size halves and the channels double from
 * level to level; in the decoder the channels of the encoder's level are concatenated to the upsampled ones.
 * The loss is cross entropy plus Dice. Sources: Cicek et al. 2016, 3D U-Net (arXiv:1606.06650); Isensee et
 * al. 2021, nnU-Net (arXiv:1809.10486) for the loss, the norm, the limit on channels, and convolutions of
 * stride 2 instead of pools. Knows the keys of the model section and the batch fields x and y. */
#include <stdio.h>
#include <string.h>

#include "engine/models/conv_net.h"

#define NOUN "a unet3d"
#define DOWN "conv|max_pool"
#define MAX_LEVELS 8
#define DEFAULT_WIDTH 32
#define NO_LOSS "must be above 0 where model.cross_entropy_weight is 0: there would be nothing to minimise"

typedef struct unet {
    clt_conv_net net;
    int64_t levels, width, width_limit;
    bool pools; /* the encoder halves sizes by pools, not by strides */
    bool dice_background;
    double dice_weight, cross_entropy_weight;
    int32_t skip[MAX_LEVELS]; /* output of each level of the encoder, which the decoder reads */
} unet;

static int64_t channels_of(const unet *u, int64_t level)
{
    int64_t channels = u->width << level;
    return channels < u->width_limit ? channels : u->width_limit;
}

/* "enc1.conv1": the levels count from 1, the finest. */
static const char *unet_name(char *buffer, const char *way, int64_t level, const char *rest)
{
    snprintf(buffer, 64, "%s%lld%s", way, (long long)level + 1, rest);
    return buffer;
}

static clt_status add_conv(unet *u, const char *way, int64_t level, int number, int64_t stride)
{
    char name[64], rest[16];
    const clt_conv_layer layer = {.out = channels_of(u, level), .kernel = 3, .stride = stride};
    snprintf(rest, sizeof rest, ".conv%d", number);
    CLT_TRY(clt_conv_net_conv(&u->net, unet_name(name, way, level, rest), &layer));
    snprintf(rest, sizeof rest, ".norm%d", number);
    CLT_TRY(clt_conv_net_norm(&u->net, unet_name(name, way, level, rest), false));
    snprintf(rest, sizeof rest, ".relu%d", number);
    return clt_conv_net_next(&u->net, "relu", unet_name(name, way, level, rest), NULL, NULL);
}

static clt_status add_level_down(unet *u, int64_t level)
{
    static const int64_t two = 2;
    char name[64];
    u->net.b.graph->block++;
    if (level > 0 && u->pools)
        CLT_TRY(clt_conv_net_next(&u->net, "max_pool", unet_name(name, "pool", level, ""),
                                  CLT_ATTRS(CLT_A_INTS("kernel", &two, 1)), NULL));
    CLT_TRY(add_conv(u, "enc", level, 1, level > 0 && !u->pools ? 2 : 1));
    CLT_TRY(add_conv(u, "enc", level, 2, 1));
    u->skip[level] = u->net.at;
    return CLT_OK;
}

static clt_status add_level_up(unet *u, int64_t level)
{
    static const int64_t two = 2;
    char name[64];
    u->net.b.graph->block++;
    CLT_TRY(clt_conv_net_next(&u->net, "conv_transpose3d", unet_name(name, "up", level, ""),
                              CLT_ATTRS(CLT_A_INT("out", channels_of(u, level)),
                                        CLT_A_INTS("kernel", &two, 1), CLT_A_INTS("stride", &two, 1)),
                              NULL));
    CLT_TRY(clt_conv_net_join(&u->net, "concat", unet_name(name, "skip", level, ""), u->skip[level],
                              CLT_ATTRS(CLT_A_INT("axis", 1))));
    CLT_TRY(add_conv(u, "dec", level, 1, 1));
    return add_conv(u, "dec", level, 2, 1);
}

/* Adds the head and both losses, whose sum training minimises. cross_entropy comes first, since the first
 * loss is reported as the model's loss and counts correct voxels. */
static clt_status add_losses(unet *u)
{
    const clt_conv_layer layer = {.out = u->net.classes, .kernel = 1, .stride = 1, .bias = true};
    CLT_TRY(clt_conv_net_conv(&u->net, "head", &layer));
    int32_t inputs[2] = {u->net.at, u->net.target};
    CLT_TRY(clt_conv_net_loss(&u->net, "cross_entropy", "loss", inputs, 2,
                              CLT_ATTRS(CLT_A_FLOAT("weight", u->cross_entropy_weight))));
    if (u->dice_weight == 0)
        return CLT_OK;
    return clt_conv_net_loss(&u->net, "dice_loss", "dice", inputs, 2,
                             CLT_ATTRS(CLT_A_BOOL("include_background", u->dice_background),
                                       CLT_A_FLOAT("weight", u->dice_weight)));
}

static clt_status read_losses(unet *u)
{
    const clt_model_builder *b = &u->net.b;
    u->dice_weight = u->cross_entropy_weight = 1;
    CLT_TRY(clt_model_read_number(b, "dice_weight", 0, 1e6, &u->dice_weight));
    CLT_TRY(clt_model_read_number(b, "cross_entropy_weight", 0, 1e6, &u->cross_entropy_weight));
    CLT_TRY(clt_model_read_bool(b, "dice_background", &u->dice_background));
    if (u->dice_weight == 0 && u->cross_entropy_weight == 0)
        return clt_model_key_fail(b, "dice_weight", NO_LOSS);
    return CLT_OK;
}

static clt_status unet_read(unet *u)
{
    const char *down = "conv";
    const clt_model_builder *b = &u->net.b;
    u->levels = 4;
    u->width_limit = 320;
    CLT_TRY(clt_model_read_int(b, "levels", 2, &u->levels));
    CLT_TRY(clt_model_read_int(b, "width", 0, &u->width));
    CLT_TRY(clt_model_read_int(b, "width_limit", 1, &u->width_limit));
    CLT_TRY(clt_model_read_word(b, "down", DOWN, &down));
    CLT_TRY(clt_conv_net_read_norm(&u->net, "instance_norm"));
    CLT_TRY(read_losses(u));
    u->pools = strcmp(down, "max_pool") == 0;
    if (u->width == 0)
        u->width = DEFAULT_WIDTH;
    return u->levels <= MAX_LEVELS ? CLT_OK : clt_model_key_fail(b, "levels", "must be at most 8");
}

/* Checks the sizes of x. They must halve without a remainder at each level, so that encoder and decoder have
 * the same sizes. */
static clt_status check_sizes(const unet *u)
{
    const clt_shape *x = &u->net.x->shape;
    char why[200], text[CLT_SHAPE_TEXT];
    for (int i = x->ndim - u->net.dims; i < x->ndim; i++)
        if (x->dim[i] % ((int64_t)1 << (u->levels - 1)) != 0) {
            snprintf(why, sizeof why,
                     "%lld levels need a depth, height and width that are multiples of %lld, but the samples "
                     "x have the shape %s; change data.patch or data.volume, or use fewer levels",
                     (long long)u->levels, 1LL << (u->levels - 1), clt_shape_text(x, text, sizeof text));
            return clt_model_key_fail(&u->net.b, "levels", why);
        }
    return CLT_OK;
}

static clt_status unet_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                             clt_graph *graph)
{
    unet u = {.net = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph},
                      .dims = 3,
                      .dense = true,
                      .noun = NOUN}};
    CLT_TRY(unet_read(&u));
    CLT_TRY(clt_conv_net_open(&u.net));
    if (u.net.classes < 2)
        return clt_model_key_fail(&u.net.b, "classes", "must be at least 2; class 0 is the background");
    CLT_TRY(check_sizes(&u));
    for (int64_t level = 0; level < u.levels; level++)
        CLT_TRY(add_level_down(&u, level));
    for (int64_t level = u.levels - 2; level >= 0; level--)
        CLT_TRY(add_level_up(&u, level));
    graph->block++;
    return add_losses(&u);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    clt_conv_net_rules(rules, NOUN);
    if (clt_rules_usable(rules, "model.classes") && clt_config_int(rules->config, "model.classes") == 1)
        clt_rules_broken(rules, "model.classes", "must be at least 2; class 0 is the background");
    if (clt_rules_usable(rules, "model.dice_weight") && clt_rules_empty(rules, "model.dice_weight") &&
        clt_rules_usable(rules, "model.cross_entropy_weight") &&
        clt_rules_empty(rules, "model.cross_entropy_weight"))
        clt_rules_broken(rules, "model.dice_weight", NO_LOSS);
}

static const clt_config_key keys[] = {
    CLT_KEY_INT("model.levels", 2, MAX_LEVELS, "4", "",
                "sizes at which the network works, each half of the one before; depth, height and width of "
                "the data must be multiples of 2 to the power of levels - 1"),
    CLT_KEY_INT("model.width", 0, 65536, "0", "channels",
                "channels of the first level; each later level has twice as many channels; 0: 32"),
    CLT_KEY_INT("model.width_limit", 1, 65536, "320", "channels", "the most channels that a level has"),
    CLT_KEY_CHOICE("model.down", DOWN, "\"conv\"",
                   "how sizes halve: the first convolution of a level has stride 2, or a max pool before it"),
    CLT_CONV_NET_CLASSES,
    CLT_MODEL_CLASS_WEIGHTS("the cross entropy is a weighted mean over the voxels, and the Dice loss of each "
                            "class is multiplied; []: all are 1"),
    CLT_CONV_NET_NORM("instance_norm"),
    CLT_KEY_FLOAT("model.cross_entropy_weight", 0, 1e6, "1", "",
                  "factor of the cross entropy of all voxels in the loss"),
    CLT_KEY_FLOAT("model.dice_weight", 0, 1e6, "1", "",
                  "factor of the Dice loss, which weighs small and large structures alike; 0: none"),
    CLT_KEY_BOOL("model.dice_background", "false", "class 0 counts in the Dice loss too"),
    CLT_KEY_END,
};

const clt_config_part clt_family_unet3d = {.name = "unet3d",
                                           .help = "a U-Net that gives each voxel of a volume a class",
                                           .keys = keys,
                                           .check = check_rules};

const clt_model_family clt_model_unet3d = {.part = &clt_family_unet3d,
                                           .noun = NOUN,
                                           .build = unet_build,
                                           .width_from_data = clt_conv_net_classes_from_data};
