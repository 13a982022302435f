/* SPDX-License-Identifier: Apache-2.0
 *
 * The resnet family: residual networks that classify images, with torchvision's layers, initial values and
 * names of tensors, so that weights can be exchanged with it. Knows the keys of the model section. */
#include "engine/models/residual.h"

#include <string.h>

#define STEMS "imagenet|cifar|auto"
#define DEPTHS "18|34|50|101|152"
#define NOUN "a resnet"

static clt_status resnet_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                               clt_graph *graph)
{
    clt_residual r = {.net = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph},
                              .dims = 2,
                              .noun = NOUN}};
    const char *stem = "auto";
    CLT_TRY(clt_model_read_word(&r.net.b, "stem", STEMS, &stem));
    r.large_stem = strcmp(stem, "cifar") != 0;
    return clt_residual_build(&r);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    clt_residual_rules(rules, NOUN, DEPTHS);
}

static const clt_config_key keys[] = {
    CLT_KEY_INT("model.depth", 0, 152, "0", "layers",
                "number of layers with weights: 18, 34, 50, 101 or 152"),
    CLT_KEY_CHOICE("model.stem", STEMS, "\"auto\"",
                   "the first layers: imagenet: a 7x7 convolution of stride 2 and a 3x3 max pool of stride "
                   "2, for images of 64 pixels and more; cifar: a 3x3 convolution of stride 1, for small "
                   "images; auto: imagenet"),
    CLT_RESIDUAL_KEYS,
    CLT_KEY_END,
};
static const char *const required[] = {"model.depth", NULL};

const clt_config_part clt_family_resnet = {.name = "resnet",
                                           .help = "a residual network that classifies images, as in "
                                                   "torchvision; model.depth says which",
                                           .keys = keys,
                                           .required = required,
                                           .check = check_rules};

const clt_model_family clt_model_resnet = {.part = &clt_family_resnet,
                                           .noun = NOUN,
                                           .build = resnet_build,
                                           .width_from_data = clt_conv_net_classes_from_data};
