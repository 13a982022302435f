/* SPDX-License-Identifier: Apache-2.0
 *
 * The cnn3d family: residual networks that classify volumes such as CT scans, the layers of resnet with
 * three-dimensional windows. Tensors have the names of MedicalNet's and MONAI's ResNets, whose weights fit
 * if the stem is the same. Source: Chen et al. 2019, Med3D (arXiv:1904.00625). Knows the model section. */
#include "engine/models/residual.h"

#include <string.h>

#define STEMS "large|small|auto"
#define DEPTHS "10|18|34|50|101|152"
#define NOUN "a cnn3d"

static clt_status cnn3d_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                              clt_graph *graph)
{
    clt_residual r = {.net = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph},
                              .dims = 3,
                              .noun = NOUN}};
    const char *stem = "auto";
    CLT_TRY(clt_model_read_word(&r.net.b, "stem", STEMS, &stem));
    CLT_TRY(clt_conv_net_read_norm(&r.net, "batch_norm"));
    r.large_stem = strcmp(stem, "small") != 0;
    return clt_residual_build(&r);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    clt_residual_rules(rules, NOUN, DEPTHS);
}

static const clt_config_key keys[] = {
    CLT_KEY_INT("model.depth", 0, 152, "0", "layers",
                "number of layers with weights: 10, 18, 34, 50, 101 or 152"),
    CLT_KEY_CHOICE("model.stem", STEMS, "\"auto\"",
                   "the first layers: large: a 7x7x7 convolution of stride 2 and a 3x3x3 max pool of stride "
                   "2, for volumes of 64 voxels and more in each dimension; small: a 3x3x3 convolution of "
                   "stride 1; auto: large"),
    CLT_RESIDUAL_KEYS,
    CLT_CONV_NET_NORM("batch_norm"),
    CLT_KEY_END,
};
static const char *const required[] = {"model.depth", NULL};

const clt_config_part clt_family_cnn3d = {.name = "cnn3d",
                                          .help = "a residual network that classifies volumes; model.depth "
                                                  "says which",
                                          .keys = keys,
                                          .required = required,
                                          .check = check_rules};

const clt_model_family clt_model_cnn3d = {.part = &clt_family_cnn3d,
                                          .noun = NOUN,
                                          .build = cnn3d_build,
                                          .width_from_data = clt_conv_net_classes_from_data};
